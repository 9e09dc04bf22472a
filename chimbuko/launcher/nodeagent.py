"""The agent of one node, in a run whose services are elsewhere."""

from __future__ import annotations

import math
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import redis

from chimbuko.capture.follow.starter import GuardStarter
from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.recordedstreams import recorded_streams
from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.core.units import format_duration_us
from chimbuko.launcher.agents import RESCUE_AFTER_S, Agents
from chimbuko.launcher.kernels import await_kernels
from chimbuko.launcher.nodescript import leave_mark
from chimbuko.launcher.options import AgentOptions
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.transport import StreamPlace, place_of_others, place_on_node, shield_of
from chimbuko.runtime.process.cores import pin
from chimbuko.runtime.process.failures import Failures
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.wakeup import Ending
from chimbuko.runtime.protocol.membership import Presence, ask_to_end
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import AGENT_MARK, COMING_MARK, RunDirectory, RunInfo
from chimbuko.runtime.runs.scratch import agents_part, has_left_something
from chimbuko.runtime.runs.shares import claim_share, note_read

TICK_S = 0.5
TIDY_TRIES, TIDY_PAUSE_S = 20, 0.05
PATIENCE_S = 300.0
"""An agent does so long without services, which may come back: nobody else says that the run is to end."""
MOST_PATIENCE_S = 86_400.0


def attend(
    folder: Path,
    streams: Path | None = None,
    node: str | None = None,
    cores: str | None = None,
    patience_s: float = PATIENCE_S,
) -> int:
    """Read the streams of this node from the start of a run's services to their end; exit code.

    Parameters
    ----------
    folder
        Folder of the run, which need not be there yet.
    streams
        Folder of streams that a program writes on its own; None for that of this node in the run.
    node
        Its name; None for that of the host.
    cores
        To keep to, such as ``0,2-5``; None for all.
    patience_s
        How long it does without services that have died.
    """
    if cores:
        pin(cores)
    if streams is not None and not streams.is_dir():
        raise ConfigError(f"{streams}: no such folder; streams are where TAU_ADIOS2_FILENAME says")
    if not 0.0 < patience_s <= MOST_PATIENCE_S:
        raise ConfigError(f"--patience: {patience_s:g} s are not possible; give at most 24h, as in 30min")
    run = RunDirectory(folder.absolute())
    return NodeAgent(run, node or platform.node(), streams, patience_s).attend()


class NodeAgent:
    """One agent's part in a run, from the services' start to their end."""

    def __init__(self, run: RunDirectory, node: str, streams: Path | None, patience_s: float) -> None:
        if "/" in node or not node.strip("."):
            raise ConfigError(f"--node {node!r}: no name for a folder")
        self._run = run
        self._node = node
        self._streams = streams
        self._patience_s = patience_s
        self._stop = Ending()
        self._problems: list[str] = []
        self._failures = Failures(self._problems)
        self._rescue_at_s = math.inf
        self._answer: bool | None = False
        """Whether the run is to end; None if nobody has answered."""
        heed(FROM_OTHERS, self._on_signal)

    def attend(self) -> int:
        """Exit code: 4 where something was found that could not be delivered."""
        broker = self._services()
        if broker is None:
            return 0
        name = f"agent-{self._node}"
        info = self._run.read_info()
        presence = Presence(broker, name)
        # Before all else: from now on the services do not end without it.
        if self._say(presence, is_done=False) and not has_left_something(info.id, agents_part(self._node)):
            self._say(presence, is_done=True)
            return 0
        if info.transport == Transport.RECORDED:
            is_delivered = self._read_share(name, info, presence, broker)
        else:
            is_delivered = self._read_node(name, info, presence)
        self._say(presence, is_done=True)
        for problem in self._problems:
            say(problem)
        return 0 if is_delivered else ServiceError.exit_code

    def _read_share(self, name: str, info: RunInfo, presence: Presence, broker: RunBroker) -> bool:
        """Analyse a share of recorded streams; whether all that was found is delivered."""
        share = claim_share(self._run, name)
        if share is None:
            say(f"{name}: all shares of the trace are taken; there is nothing to do")
            return True
        recorded = recorded_streams(self._run)
        options = AgentOptions(info.config, self._node, (name,), None, recorded, share, is_revived=True)
        with ExitStack() as stack:
            stack.enter_context(self._heard(presence))
            await_kernels(lambda: self._stop.is_set() or bool(self._answer))
            agents = stack.enter_context(
                Agents(self._run, info.id, options, self._run.read_broker_url(), self._problems)
            )
            agents.wait_ready()
            say(f"{name} reads share {share.index + 1} of {share.count} of {len(recorded)} recorded streams")
            if self._work(agents, broker):
                note_read(self._run, name, share)
            return agents.finish()

    def _read_node(self, name: str, info: RunInfo, presence: Presence) -> bool:
        """Analyse the streams of this node; whether all that was found is delivered."""
        place = self._place(info)
        self._problems += place.refusals
        options = AgentOptions(info.config, self._node, (name,), place, is_revived=True)
        url = self._run.read_broker_url()
        guard = GuardStarter(place.guard, self._run.logs / "guard.log")
        with ExitStack() as stack:
            stack.enter_context(self._heard(presence))
            stack.callback(self._turn_programs_away, place)
            guard.begin()
            stack.callback(guard.stop)
            # Under its guard a stream in files waits for its reader, however long kernels take to compile.
            is_patient = place.transport is Transport.FILES
            if is_patient:
                self._let_programs_begin(place, guard)
            await_kernels(lambda: self._is_unwanted_while_compiling(place.folder))
            agents = stack.enter_context(Agents(self._run, info.id, options, url, self._problems))
            agents.wait_ready()
            if not is_patient:
                self._let_programs_begin(place, guard)
            say(f"{name} reads the streams in {place.folder}")
            self._work(agents)
            self._turn_programs_away(place)
            is_delivered = agents.finish()
        if not self._streams:
            self._tidy_up(place.folder)
        return is_delivered

    def _let_programs_begin(self, place: StreamPlace, guard: GuardStarter) -> None:
        """Have programs of this node begin that the run's script starts, once their streams have a guard."""
        guard.wait()
        if not self._streams:
            leave_mark(place.folder, place.transport, shield_of(place, self._problems))

    def _turn_programs_away(self, place: StreamPlace) -> None:
        if not self._streams:
            with suppress(OSError):
                for mark in (AGENT_MARK, COMING_MARK):
                    (place.folder / mark).unlink(missing_ok=True)

    def _is_unwanted_while_compiling(self, streams: Path) -> bool:
        """Announce the agent to programs of this node; true if it shall not come."""
        with suppress(OSError):
            (streams / COMING_MARK).write_text(f"{time.monotonic_ns()}\n")
        return self._stop.is_set() or bool(self._answer)

    def _place(self, info: RunInfo) -> StreamPlace:
        if self._streams:
            return place_of_others(self._streams.absolute(), info.id, self._node)
        folder = Path(self._run.streams_path.read_text()) / self._node
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{folder}: cannot be made ({error.strerror}); choose another --streams"
            ) from error
        return place_on_node(folder, info.id, self._node, Transport(info.transport))

    def _tidy_up(self, folder: Path) -> None:
        """Remove what was made for streams on this node, where no stream is left in it."""
        # Its guard may be about to do that.
        for _ in range(TIDY_TRIES):
            with suppress(OSError):
                folder.rmdir()
            if not folder.exists():
                break
            time.sleep(TIDY_PAUSE_S)
        if folder.parent != self._run.trace:
            with suppress(OSError):
                folder.parent.rmdir()

    def _services(self) -> RunBroker | None:
        """Return the broker, once there is one; None if the run is over, or we are asked to end.

        Raises
        ------
        ServiceError
            There was one, and nobody has answered there for longer than the agent is patient.
        """
        said, seen_s = "", 0.0
        while not self._stop.is_set():
            waits_for = f"the services: {self._run.broker_path}"
            if self._run.broker_path.exists():
                seen_s = seen_s or time.monotonic()
                try:
                    url, info = self._run.read_broker_url(), self._run.read_info()
                    return RunBroker.connect(url, info.id, found_in=self._run.broker_path)
                except ServiceError as error:
                    if time.monotonic() - seen_s > self._patience_s:
                        raise
                    waits_for = f"services that come back: {error}"
            elif self._is_over():
                say(f"{self._run.path}: the run has ended; there is nothing to do")
                break
            if waits_for != said:
                say(f"waiting for {waits_for}")
                said = waits_for
            self._stop.wait(TICK_S)
        return None

    def _is_over(self) -> bool:
        return self._run.info_path.exists() and self._run.read_info().state != "running"

    def _work(self, agents: Agents, of_recorded: RunBroker | None = None) -> bool:
        """Look after the agent until it is to end, or has read what was recorded; and until it has ended.

        Whether all that was recorded is read.

        Parameters
        ----------
        of_recorded
            The run's broker where streams are recorded.
        """
        heard_at, is_read = time.monotonic(), False
        while not self._stop.wait(TICK_S):
            for line in agents.look_after():
                say(line)
            if of_recorded and (agents.has_failed or not agents.is_analysing):
                is_read = not agents.has_failed
                break
            answer = self._answer
            if answer is not None:
                heard_at = time.monotonic()
            is_over = False
            with self._failures.survived("the run cannot be looked into any more"):
                is_over = answer is None and self._is_over()
            if answer or is_over:
                break
            if time.monotonic() - heard_at > self._patience_s:
                self._problems.append(
                    f"nothing was heard of the services for {format_duration_us(1e6 * self._patience_s)}; "
                    "longer waits: chimbuko agent --patience"
                )
                break
        if of_recorded and not is_read:
            # Others would wait for its streams, or go on without them and flag other calls.
            with suppress(redis.RedisError):
                ask_to_end(of_recorded)
        for _ in agents.delivering(lambda: self._rescue_at_s):
            time.sleep(TICK_S)
        return is_read

    def _on_signal(self, signum: int, frame: object) -> None:
        # It may come again, from whoever started us.
        self._rescue_at_s = min(self._rescue_at_s, time.monotonic() + RESCUE_AFTER_S)
        self._stop.set()

    @contextmanager
    def _heard(self, presence: Presence) -> Iterator[None]:
        """Say again and again that the agent is there, also while its processes start or end: on a busy node
        they may take a minute to load their kernels.
        """
        is_over = threading.Event()

        def speak() -> None:
            while not is_over.wait(presence.report_in_s):
                self._answer = self._say(presence, is_done=False)

        speaker = threading.Thread(target=speak, daemon=True)
        speaker.start()
        try:
            yield
        finally:
            is_over.set()
            speaker.join()

    def _say(self, presence: Presence, is_done: bool) -> bool | None:
        """Whether the run is to end; None if nobody answers."""
        try:
            return presence.say(is_done, self._problems)
        except redis.RedisError:
            return None
