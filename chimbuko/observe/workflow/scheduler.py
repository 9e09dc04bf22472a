"""Scheduler of tasks: a state machine over plain values that decides when and where each task runs.

It takes events, and each gives a list of instructions, which are to be done in their order. Nothing else
changes the state, so that the same events always give the same instructions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chimbuko.observe.workflow.task import ONE_CORE, Allocation, FreeCores, Node, Resources, State, Task


@dataclass(frozen=True)
class Begun:
    """Event: the workflow begins, as services and monitors are there."""


@dataclass(frozen=True)
class Advised:
    """Event: the values that were recommended to a task have been read."""

    task: str
    values: Mapping[str, str | int | float]
    """Recommended values by name, without those that nobody has recommended."""


@dataclass(frozen=True)
class Ended:
    """Event: a task's process has ended, or could not be started."""

    task: str
    code: int
    """Exit code of the process, as a shell gives it."""
    reason: str = ""
    """Reason of the failure, where the exit code does not tell it."""


@dataclass(frozen=True)
class Interrupted:
    """Event: the workflow has to end now."""


Event = Begun | Advised | Ended | Interrupted


@dataclass(frozen=True)
class Ask:
    """Instruction: read the values that are recommended to a task; ``Advised`` answers."""

    task: str


@dataclass(frozen=True)
class Launch:
    """Instruction: start a task; ``Ended`` answers."""

    task: str
    attempt: int
    """Number of the attempt, from 1 on."""
    words: tuple[str, ...]
    """Command of the task, with all values in it."""
    values: Mapping[str, str]
    """Recommended values that are in the command."""
    resources: Resources
    place: Allocation


@dataclass(frozen=True)
class Stop:
    """Instruction: end a running task; ``Ended`` answers."""

    task: str


@dataclass(frozen=True)
class Note:
    """Instruction: report that a task has come into another state."""

    task: str
    state: State
    attempt: int
    """Number of the attempt that is under way or was the last; 0 before the first."""
    code: int | None = None
    """Exit code of an attempt that has ended."""
    reason: str = ""
    place: Allocation | None = None
    """Nodes and cores of the task while it is executing."""
    resources: Resources = ONE_CORE


@dataclass(frozen=True)
class Finish:
    """Instruction: finish, as all tasks have come to an end."""


Instruction = Ask | Launch | Stop | Note | Finish


@dataclass
class _Course:
    """State of one task, with its attempts and its allocation."""

    task: Task
    resources: Resources
    state: State = State.NEW
    is_asked: bool = False
    attempt: int = 0
    place: Allocation | None = None
    values: dict[str, str] = field(default_factory=dict)

    def note(self, code: int | None = None, reason: str = "") -> Note:
        return Note(self.task.name, self.state, self.attempt, code, reason, self.place, self.resources)


class Scheduler:
    """Scheduler of the tasks of a workflow.

    Tasks start in the order in which they are given; one that waits for cores does not keep smaller ones
    behind it from starting.

    Parameters
    ----------
    tasks
        Tasks that fit on the nodes, without circular dependencies.
    """

    def __init__(self, tasks: Sequence[Task], nodes: Iterable[Node]) -> None:
        self._courses = {task.name: _Course(task, task.resources) for task in tasks}
        self._free = FreeCores(nodes)
        self._is_ending = False
        self._is_finished = False

    def handle(self, event: Event) -> list[Instruction]:
        """Return the instructions that follow from an event."""
        if self._is_finished:
            return []
        instructions: list[Instruction] = []
        match event:
            case Begun():
                instructions += [course.note() for course in self._courses.values()]
            case Advised(name, values):
                instructions += self._advise(self._courses[name], values)
            case Ended():
                instructions += self._end(self._courses[event.task], event)
            case Interrupted():
                instructions += self._interrupt()
        instructions += self._go_on()
        if all(course.state.is_final for course in self._courses.values()):
            self._is_finished = True
            instructions.append(Finish())
        return instructions

    def state(self, task: str) -> State:
        """Return the state of a task."""
        return self._courses[task].state

    def _advise(self, course: _Course, values: Mapping[str, str | int | float]) -> list[Instruction]:
        if course.state is not State.NEW:
            return []
        chosen: dict[str, str | int | float] = {}
        for name, recommendation in course.task.recommended.items():
            value = values.get(name, recommendation.default)
            if value is None:
                course.state = State.FAILED
                where = f"{recommendation.namespace} {recommendation.key}"
                return [course.note(reason=f"{where} has no value, and {name} has no default")]
            chosen[name] = value
        wanted = _resources(course.task.resources, chosen)
        reason = ""
        if wanted is None or not self._free.could_fit(wanted):
            # Advice may be bad, and no reason to fail: the task runs as its author has written it.
            reason = "there is no room for what is recommended; it gets what is written in the file"
            for name in _OF_RESOURCES:
                chosen.pop(name, None)
            wanted = course.task.resources
        course.resources = wanted
        course.values = {name: str(value) for name, value in chosen.items()}
        course.state = State.SCHEDULED
        return [course.note(reason=reason)]

    def _end(self, course: _Course, event: Ended) -> list[Instruction]:
        if course.state is not State.EXECUTING:
            return []
        assert course.place is not None
        self._free.give_back(course.place)
        course.place = None
        if event.code == 0:
            course.state = State.DONE
        elif self._is_ending:
            course.state = State.CANCELED
        elif course.attempt <= course.task.retries:
            course.state = State.SCHEDULED
        else:
            course.state = State.FAILED
        return [course.note(event.code, event.reason)]

    def _interrupt(self) -> list[Instruction]:
        # A second interrupt ends what still runs once more; the tasks may then be given less time.
        self._is_ending = True
        instructions: list[Instruction] = []
        for course in self._courses.values():
            if course.state is State.EXECUTING:
                instructions.append(Stop(course.task.name))
            elif not course.state.is_final:
                course.state = State.CANCELED
                instructions.append(course.note(reason="the workflow was interrupted"))
        return instructions

    def _go_on(self) -> list[Instruction]:
        instructions: list[Instruction] = []
        is_changed = True
        while is_changed:
            before = len(instructions)
            for course in self._courses.values():
                if course.state is State.NEW:
                    instructions += self._await_others(course)
            is_changed = len(instructions) > before
        for course in self._courses.values():
            if course.state is State.SCHEDULED and not self._is_ending:
                instructions += self._launch(course)
        return instructions

    def _await_others(self, course: _Course) -> list[Instruction]:
        others = [self._courses[name] for name in course.task.after]
        for other in others:
            if other.state in _ENDS:
                course.state = State.CANCELED
                return [course.note(reason=f"{other.task.name} {_ENDS[other.state]}")]
        if course.is_asked or any(other.state is not State.DONE for other in others):
            return []
        if course.task.recommended:
            course.is_asked = True
            return [Ask(course.task.name)]
        course.state = State.SCHEDULED
        return [course.note()]

    def _launch(self, course: _Course) -> list[Instruction]:
        place = self._free.take(course.resources)
        if place is None:
            return []
        course.place = place
        course.state = State.EXECUTING
        course.attempt += 1
        task, resources = course.task, course.resources
        fixed = {name: str(getattr(resources, name)) for name in _OF_RESOURCES}
        words = tuple(filled(word, {**course.values, **fixed}) for word in task.command)
        launch = Launch(task.name, course.attempt, words, course.values, resources, place)
        return [course.note(), launch]


_ENDS = {State.FAILED: "has failed", State.CANCELED: "is cancelled"}
_OF_RESOURCES = ("ranks", "cores", "nodes")
_NAMED = re.compile(r"\{(\w+)\}")


def filled(word: str, values: Mapping[str, str]) -> str:
    """Return a word with values in place of their names in braces; other braces stay as they are."""
    return _NAMED.sub(lambda found: values.get(found[1], found[0]), word)


def _resources(own: Resources, chosen: Mapping[str, str | int | float]) -> Resources | None:
    """Return a task's resources with the recommended values; None if that cannot be."""
    numbers = {name: getattr(own, name) for name in _OF_RESOURCES}
    for name in _OF_RESOURCES:
        if name in chosen:
            value = chosen[name]
            if isinstance(value, str) or not math.isfinite(value) or value < 1 or int(value) != value:
                return None
            numbers[name] = int(value)
    resources = Resources(**numbers)
    return resources if resources.ranks >= resources.nodes else None
