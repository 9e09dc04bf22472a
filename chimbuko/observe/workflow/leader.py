"""Leader of a workflow: it starts services and tasks, and ends with the last of them."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from chimbuko.core.errors import ChimbukoError, ConfigError, ServiceError
from chimbuko.observe.namespaces.client.client import Client, Namespace
from chimbuko.observe.namespaces.exchange.jobaddress import JobAddress
from chimbuko.observe.namespaces.exchange.leaves import Leaf, elements
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.observe.workflow.advice import AdvisedCores, follow
from chimbuko.observe.workflow.children import (
    Child,
    adopt_orphans,
    kill_orphans,
)
from chimbuko.observe.workflow.description import Workflow
from chimbuko.observe.workflow.machines import Machine, machine_of
from chimbuko.observe.workflow.record import NAMESPACE, format_place, noted
from chimbuko.observe.workflow.scheduler import (
    Advised,
    Ask,
    Begun,
    Ended,
    Event,
    Instruction,
    Interrupted,
    Launch,
    Note,
    Scheduler,
    Stop,
)
from chimbuko.observe.workflow.services import Services
from chimbuko.observe.workflow.task import State, Task
from chimbuko.runtime.process.lifetime import log as say
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.wakeup import Wakeup
from chimbuko.runtime.runs.programname import program_of

INTERRUPTED_CODE = 130
LOOK_S = 0.2
PUBLISH_S = 5.0
"""Time in seconds in which a broker that was lost just then comes back."""
TASK_VARIABLE = "CHIMBUKO_TASK"
"""Environment variable with the name of the task."""
_VALUE_VARIABLE = "CHIMBUKO_RECOMMENDED_"


def lead(workflow: Workflow, base: Path, folder: Path, advised_cores: AdvisedCores) -> int:
    """Run a workflow to its end.

    Parameters
    ----------
    base
        Folder to which the folders of tasks are relative.
    folder
        A new one, for logs and for what is found.
    advised_cores
        Cores for the analysis, as the run advises that ``workflow`` may name.

    Returns
    -------
    int
        0 where all tasks are done, 130 where it was interrupted, and else the exit code of the first task
        that failed for good.

    Raises
    ------
    ChimbukoError
        It cannot begin.
    """
    folder = folder.absolute()
    machine = machine_of(os.environ, workflow.mpirun, workflow.is_exclusive)
    machine, advising = follow(workflow, machine, base, advised_cores)
    try:
        (folder / "logs").mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made ({error.strerror}); name a new folder") from error
    adopt_orphans()
    signals: list[int] = []
    heed(FROM_OTHERS, lambda number, frame: signals.append(number))
    services = Services(folder, workflow, machine, os.environ, lambda: bool(signals), advising)
    try:
        with Wakeup() as wakeup:
            services.start()
            if signals:
                services.stop_monitors()
                services.stop()
                return INTERRUPTED_CODE
            with _Course(workflow.tasks, machine, services, base, folder, signals) as course:
                course.run(wakeup)
                services.stop_monitors()
            services.stop()
            return course.code
    finally:
        services.kill()
        kill_orphans()


class _Course:
    """Course of a workflow's tasks, as a context manager."""

    def __init__(
        self,
        tasks: Sequence[Task],
        machine: Machine,
        services: Services,
        base: Path,
        folder: Path,
        signals: list[int],
    ) -> None:
        self._tasks = {task.name: task for task in tasks}
        self._machine = machine
        self._services = services
        self._base = base
        self._folder = folder
        self._signals = signals
        self._scheduler = Scheduler(tasks, machine.nodes)
        self._running: dict[str, Child] = {}
        self._heeded = 0
        self._events: deque[Event] = deque([Begun()])
        self._failed_code = 0
        self._client, self._published = _published_at(services.place)

    def __enter__(self) -> _Course:
        return self

    def __exit__(self, *exception: object) -> None:
        for child in self._running.values():
            child.kill()
        if self._client is None:
            return
        try:
            self._client.close()
        except ServiceError as error:
            say(f"not all states of tasks were published: {error}")

    @property
    def code(self) -> int:
        """Exit code of the workflow, as ``lead`` returns it."""
        return INTERRUPTED_CODE if self._signals else self._failed_code

    def run(self, wakeup: Wakeup) -> None:
        """Carry out the scheduler's instructions until all tasks have come to an end."""
        while any(not self._scheduler.state(name).is_final for name in self._tasks):
            self._hear()
            while self._events:
                for instruction in self._scheduler.handle(self._events.popleft()):
                    self._obey(instruction)
            if self._running:
                wakeup.wait(LOOK_S)
            self._services.look_after()

    def _hear(self) -> None:
        """Return the events since the last look."""
        if len(self._signals) > self._heeded:
            if self._heeded:
                for child in self._running.values():
                    child.kill()
            self._heeded = len(self._signals)
            self._events.append(Interrupted())
        for name, child in list(self._running.items()):
            code = child.code
            if code is not None:
                del self._running[name]
                self._events.append(Ended(name, code))

    def _obey(self, instruction: Instruction) -> None:
        match instruction:
            case Ask(name):
                self._events.append(Advised(name, self._recommended(self._tasks[name])))
            case Launch():
                self._launch(instruction)
            case Stop(name):
                if name in self._running:
                    self._running[name].ask_to_end()
            case Note():
                self._note(instruction)

    def _launch(self, launch: Launch) -> None:
        task = self._tasks[launch.task]
        words = self._machine.start_task(launch, self._services.wrapper)
        environment = {**self._services.environment, **task.environment, TASK_VARIABLE: task.name}
        for name, value in launch.values.items():
            environment[f"{_VALUE_VARIABLE}{name.upper()}"] = value
        log = self._log_of(task.name)
        try:
            self._running[task.name] = Child(
                words, environment, self._base / task.folder, log, self._machine.cores_of(launch)
            )
        except ChimbukoError as error:
            self._events.append(Ended(task.name, error.exit_code, str(error)))

    def _note(self, note: Note) -> None:
        program = program_of(self._tasks[note.task].command)
        if self._published is not None:
            self._published.publish_tree_async(noted(note, program, time.time_ns() // 1000))
        if note.state is State.FAILED and not self._failed_code:
            self._failed_code = note.code or 1
        if line := self._line(note):
            say(line)

    def _line(self, note: Note) -> str:
        """Return the line that a user sees of a change; nothing while a task only waits."""
        why = f": {note.reason}" if note.reason else ""
        code = "" if note.code is None else f" (exit code {note.code})"
        log = self._log_of(note.task)
        match note.state:
            case State.EXECUTING:
                assert note.place is not None
                times = f", attempt {note.attempt}" if note.attempt > 1 else ""
                return f"{note.task}: runs on {format_place(note.place)}{times}"
            case State.SCHEDULED if note.code is not None:
                return f"{note.task}: has failed{code} and is tried again{why}; its output is in {log}"
            case State.FAILED:
                where = f"; its output is in {log}" if note.attempt else ""
                return f"{note.task}: has failed{code}{why}{where}"
            case State.DONE:
                return f"{note.task}: is done"
            case State.CANCELED:
                return f"{note.task}: is cancelled{why}"
            case _:
                return f"{note.task}{why}" if why else ""

    def _log_of(self, task: str) -> Path:
        return self._folder / "logs" / f"task-{task}.log"

    def _recommended(self, task: Task) -> dict[str, str | int | float]:
        """Return the published values among those that are recommended to a task."""
        found: dict[str, str | int | float] = {}
        if self._services.place is None:
            return found
        try:
            with Reader(self._services.place) as reader:
                for name, recommendation in task.recommended.items():
                    with suppress(ConfigError):
                        for _, leaf in reader.tree(recommendation.namespace, recommendation.key):
                            value = _scalar(leaf)
                            if value is not None:
                                found[name] = value
        except ChimbukoError as error:
            say(f"{task.name}: the recommended values cannot be read: {error}")
        return found


def _published_at(place: JobAddress | None) -> tuple[Client | None, Namespace | None]:
    """Return where states of tasks are published; None where that cannot be: tasks run all the same."""
    deadline_s = time.monotonic() + PUBLISH_S
    while place is not None:
        try:
            client = Client(place, rank=0)
            return client, client.create(NAMESPACE)
        except ServiceError as error:
            if time.monotonic() > deadline_s:
                say(f"states of tasks are not published: {error}")
                break
            time.sleep(LOOK_S)
    return None, None


def _scalar(leaf: Leaf) -> str | int | float | None:
    """Return the value of a leaf; None for more than one."""
    if isinstance(leaf, str):
        return leaf
    values = elements(leaf)
    if values.size != 1:
        return None
    value: int | float = values.reshape(-1)[0].item()
    return value
