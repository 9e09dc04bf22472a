"""The services of a workflow, in the order in which they start: namespaces, analysis, agents, monitors."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import redis

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.observe.namespaces.exchange.place import DEFAULT_JOB, PLACE_VARIABLE, WRITER, Place, find_place
from chimbuko.observe.workflow.companions import CHIMBUKO, LOOK_S, Companion
from chimbuko.observe.workflow.description import Workflow
from chimbuko.observe.workflow.machines import Machine
from chimbuko.runtime.process.lifetime import log as say
from chimbuko.runtime.protocol.membership import ask_to_end
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import RunDirectory

END_S = 120.0
"""For services to deliver what was found, and end."""


class Services:
    """What runs beside the tasks of one workflow.

    Parameters
    ----------
    folder
        Of the workflow.
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
        self.place: Place | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What tasks get of it."""
        return self._environment

    @property
    def wrapper(self) -> list[str]:
        """Words by way of which each rank is started, so that its trace is analysed."""
        return [str(self._run.node_command)] if self._analysis else []

    @property
    def pids(self) -> list[int]:
        """Numbers of its processes."""
        return [companion.pid for companion in self._all]

    def start(self) -> None:
        """Start all, each when the one before it is ready.

        Raises
        ------
        ChimbukoError
            One of them does not become ready.
        """
        self._start_namespaces()
        if self._workflow.analysis is not None and not self._should_stop():
            self._start_analysis(self._workflow.analysis.options)
        if self._workflow.monitor is not None and not self._should_stop():
            period = self._workflow.monitor.period
            words = self._machine.start_on_each_node([*CHIMBUKO, "monitor", "--publish", "--period", period])
            self._monitors = self._companion("monitor", words, "monitor.log")

    def look_after(self) -> None:
        """Start again what ended early."""
        for companion in self._all:
            companion.look_after()

    def stop_monitors(self) -> None:
        """End the monitors, which publish up to their end."""
        if self._monitors is not None:
            self._monitors.ask_to_end()
            self._await([self._monitors])

    def stop(self) -> None:
        """End what is left: agents and analysis, which deliver first, and the namespaces last."""
        if self._analysis:
            self._ask_analysis_to_end()
            self._await(self._analysis)
        if self._namespaces is not None:
            self._namespaces.ask_to_end()
            self._await([self._namespaces])

    def kill(self) -> None:
        """Kill what still runs."""
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
            self.place = find_place(given.place)
            self._environment[PLACE_VARIABLE] = str(Path(given.place).absolute())
        else:
            service = (self._folder / "observations").absolute()
            words = [*CHIMBUKO, "namespaces", "serve", str(service), "--bind", self._machine.bind]
            self._namespaces = self._companion("namespaces", [*words, *given.options], "namespaces.log")
            self._environment[PLACE_VARIABLE] = str(service)
            self._namespaces.wait_until(lambda: _is_served(service), self._should_stop)
            if self._should_stop():
                return
            self.place = find_place(service)

    def _start_analysis(self, options: tuple[str, ...]) -> None:
        run = str(self._run.path)
        words = [*CHIMBUKO, "serve", run, "--bind", self._machine.bind, *self._advised, *options]
        services = Companion(
            "analysis",
            words,
            self._environment,
            Path.cwd(),
            again=[*CHIMBUKO, "serve", run, "--resume"],
        )
        # First in the list, so that whatever happens it is ended.
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
        """False where the analysis does not listen yet."""
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


def _is_served(service: Path) -> bool:
    """Whether tasks can publish."""
    if not (service / "jobs" / DEFAULT_JOB / WRITER).exists():
        return False
    with suppress(ServiceError):
        place = find_place(service)
        with place.connect() as client:
            place.about(client)
        return True
    return False
