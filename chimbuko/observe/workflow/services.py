"""Services of a workflow, in the order in which they start: namespaces, analysis, agents, monitors.

Each is started again if it ends early, also before it is ready. Tasks run without one that cannot be started;
only what was given wrongly ends a workflow before.
"""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from chimbuko.core.errors import ChimbukoError, ConfigError, ServiceError
from chimbuko.observe.namespaces.exchange.jobaddress import DEFAULT_JOB, WRITER, JobAddress, find_address
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE
from chimbuko.observe.workflow.children import Child
from chimbuko.observe.workflow.description import Workflow
from chimbuko.observe.workflow.machines import Machine
from chimbuko.runtime.process.lifetime import log as say
from chimbuko.runtime.process.supervisor import Revivals
from chimbuko.runtime.protocol.membership import ask_to_end
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import RunDirectory

CHIMBUKO = (sys.executable, "-m", "chimbuko")
READY_S = 120.0
"""Time in seconds for a service to become ready: kernels may have to be compiled first."""
AGAIN_S = 20.0
"""The same for one that has ended once: tasks wait no longer, and it is started again beside them."""
LOOK_S = 0.05


class Companion:
    """Process that runs beside the tasks.

    Parameters
    ----------
    name
        Name in messages.
    words, again
        Command, and the one by which it is started again.
    log
        File for its output; None for that of this process.
    is_begun
        Whether there is something to go on with, so that ``again`` is what starts it.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path | None = None,
        again: Sequence[str] | None = None,
        is_begun: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self._words = list(words)
        self._again = list(again or words)
        self._is_begun = is_begun
        self._environment = environment
        self._folder = folder
        self._log = log
        self._revivals = Revivals()
        self._is_ending = False
        try:
            self._child = Child(words, environment, folder, log)
        except ChimbukoError as error:
            raise ServiceError(f"{name}: {error}") from error

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._child.pid

    def wait_until(self, is_ready: Callable[[], bool], should_stop: Callable[[], bool]) -> None:
        """Wait until the process is ready, or the workflow shall end; start it again where it ends before.

        Raises
        ------
        ConfigError
            Its options are wrong.
        ServiceError
            It takes too long, or has ended, and does not come back soon.
        """
        began_s = time.monotonic()
        deadline_s = began_s + READY_S
        while not should_stop() and not is_ready():
            code = self._child.code
            if code == ConfigError.exit_code:
                raise ConfigError(f"{self.name} did not start (exit code {code}){self._last_words()}")
            if code is not None:
                deadline_s = min(deadline_s, began_s + AGAIN_S)
            self.look_after()
            if (now_s := time.monotonic()) > deadline_s:
                waited = f"{now_s - began_s:.0f} s"
                raise ServiceError(f"{self.name} is not ready after {waited}{self._last_words()}")
            time.sleep(LOOK_S)

    def look_after(self) -> None:
        """Restart the process if it has ended early."""
        now_s = time.monotonic()
        code = self._child.code
        if code is None or self._is_ending or self._revivals.is_hopeless(now_s):
            return
        if not self._revivals.is_due(now_s):
            return
        self._revivals = self._revivals.started(now_s)
        if self._revivals.is_hopeless(now_s):
            say(f"{self.name} ends again and again; the workflow goes on without it{self._last_words()}")
            return
        say(f"{self.name} ended early (exit code {code}) and is started again{self._last_words()}")
        words = self._again if self._is_begun() else self._words
        with suppress(ChimbukoError):
            self._child = Child(words, self._environment, self._folder, self._log)

    def ask_to_end(self) -> None:
        """Ask the process to end, without waiting for it."""
        self._is_ending = True
        if self._child.code is None:
            self._child.send(signal.SIGTERM)

    def expect_end(self) -> None:
        """Note that the process will end by itself."""
        self._is_ending = True

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._child.code is not None

    def kill(self) -> None:
        """Kill the process, and all that it has started."""
        self._is_ending = True
        self._child.kill()

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        with suppress(OSError):
            if lines := self._log.read_text(errors="replace").strip().splitlines():
                return f": {lines[-1].removeprefix('chimbuko: ')} (its log is {self._log})"
        return f" (its log is {self._log})"


END_S = 120.0
"""Time in seconds for services to deliver their results, and end."""


class Services:
    """All processes that run beside the tasks of one workflow.

    Parameters
    ----------
    folder
        Folder of the workflow.
    should_stop
        Whether the workflow shall end; services are not waited for then.
    advising
        An earlier run whose advice the analysis follows; None for none.
    """

    def __init__(
        self,
        folder: Path,
        workflow: Workflow,
        machine: Machine,
        environment: Mapping[str, str],
        should_stop: Callable[[], bool],
        advising: RunDirectory | None = None,
    ) -> None:
        self._folder = folder
        self._workflow = workflow
        self._machine = machine
        self._environment = dict(environment)
        self._should_stop = should_stop
        self._advised = [] if advising is None else ["--advised", str(advising.path.absolute())]
        self._run = RunDirectory(folder / "run")
        self._namespaces: Companion | None = None
        self._analysis: list[Companion] = []
        self._monitors: Companion | None = None
        self.place: JobAddress | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment variables that tasks get from the services."""
        return self._environment

    @property
    def wrapper(self) -> list[str]:
        """Return the command through which each rank is started, so that its trace is analysed."""
        return [str(self._run.node_command)] if self._analysis and self._run.node_command.exists() else []

    @property
    def pids(self) -> list[int]:
        """Return the ids of the processes."""
        return [companion.pid for companion in self._all]

    def start(self) -> None:
        """Start all services, each when the one before it is ready, or cannot be started.

        Raises
        ------
        ConfigError
            What was given for one of them is wrong.
        """
        with _said("nothing is published"):
            self._start_namespaces()
        if self._workflow.analysis is not None and not self._should_stop():
            with _said("the tasks run without analysis"):
                self._start_analysis(self._workflow.analysis.options)
        if self._workflow.monitor is not None and not self._should_stop():
            period = self._workflow.monitor.period
            words = self._machine.start_on_each_node([*CHIMBUKO, "monitor", "--publish", "--period", period])
            self._monitors = self._companion("monitor", words, "monitor.log")

    def look_after(self) -> None:
        """Restart services that ended early."""
        for companion in self._all:
            companion.look_after()

    def stop_monitors(self) -> None:
        """End the monitors, which publish until then."""
        if self._monitors is not None:
            self._monitors.ask_to_end()
            self._await([self._monitors])

    def stop(self) -> None:
        """End the remaining services: agents and analysis, which deliver first, and the namespaces last."""
        if self._analysis:
            self._ask_analysis_to_end()
            self._await(self._analysis)
        if self._namespaces is not None:
            self._namespaces.ask_to_end()
            self._await([self._namespaces])

    def kill(self) -> None:
        """Kill all services that still run."""
        for companion in self._all:
            companion.kill()

    @property
    def _all(self) -> list[Companion]:
        others = [one for one in (self._namespaces, self._monitors) if one is not None]
        return [*others, *self._analysis]

    def _companion(self, name: str, words: list[str], log: str) -> Companion:
        return Companion(name, words, self._environment, Path.cwd(), self._folder / "logs" / log)

    def _start_namespaces(self) -> None:
        given = self._workflow.namespaces
        if given.place:
            self.place = find_address(given.place)
            self._environment[PLACE_VARIABLE] = str(Path(given.place).absolute())
        else:
            service = (self._folder / "observations").absolute()
            words = [*CHIMBUKO, "namespaces", "serve", str(service), "--bind", self._machine.bind]
            self._namespaces = self._companion("namespaces", [*words, *given.options], "namespaces.log")
            self._environment[PLACE_VARIABLE] = str(service)
            self._namespaces.wait_until(lambda: _is_served(service), self._should_stop)
            if self._should_stop():
                return
            self.place = find_address(service)

    def _start_analysis(self, options: tuple[str, ...]) -> None:
        run = str(self._run.path)
        words = [*CHIMBUKO, "serve", run, "--bind", self._machine.bind, *self._advised, *options]
        services = Companion(
            "analysis",
            words,
            self._environment,
            Path.cwd(),
            again=[*CHIMBUKO, "serve", run, "--resume"],
            is_begun=self._run.info_path.exists,
        )
        # The service is in the list before anything can fail, so that it is ended in any case.
        self._analysis.append(services)
        services.wait_until(self._is_analysis_ready, self._should_stop)
        if not self._should_stop():
            agent = self._machine.start_on_each_node([*CHIMBUKO, "agent", run, *self._advised])
            self._analysis.append(self._companion("agents", agent, "agents.log"))

    def _is_analysis_ready(self) -> bool:
        return self._run.broker_path.exists() and self._run.node_command.exists()

    def _ask_analysis_to_end(self) -> None:
        for companion in self._analysis:
            companion.expect_end()
        try:
            if self._is_analysis_ready() and self._is_asked_to_end():
                return
        except (ChimbukoError, redis.RedisError, OSError) as error:
            say(f"the analysis cannot be asked to end in order: {error}")
        for companion in self._analysis:
            companion.ask_to_end()

    def _is_asked_to_end(self) -> bool:
        """Ask the analysis to end, and return False where it does not listen yet."""
        return ask_to_end(RunBroker.connect(self._run.read_broker_url(), self._run.read_info().id))

    def _await(self, companions: list[Companion]) -> None:
        deadline_s = time.monotonic() + END_S
        while not all(companion.has_ended for companion in companions):
            if time.monotonic() > deadline_s:
                late = shlex.join(one.name for one in companions if not one.has_ended)
                say(f"{late}: has not ended in {END_S:.0f} s, and is killed")
                break
            time.sleep(LOOK_S)
        for companion in companions:
            companion.kill()


@contextmanager
def _said(consequence: str) -> Iterator[None]:
    """Say that a service cannot be started, and what follows; tasks run without it."""
    try:
        yield
    except ServiceError as error:
        say(f"{error}; {consequence}")


def _is_served(service: Path) -> bool:
    """Whether tasks can publish."""
    if not (service / "jobs" / DEFAULT_JOB / WRITER).exists():
        return False
    with suppress(ServiceError):
        place = find_address(service)
        with place.connect() as client:
            place.about(client)
        return True
    return False
