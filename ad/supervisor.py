"""Looks after the processes of an agent's streams: finds streams, starts, watches and replaces."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chimbuko.ad.exchange import Cell, Phase
from chimbuko.ad.forks import ForkServer, Request
from chimbuko.ad.stream import AgentStream
from chimbuko.processes import log

TICK_S = 0.05
STUCK_TICKS = 20
"""A live stream that was not drained for so many ticks (1 s) has a stuck reader. Counted in ticks of the
agent and not by the clock, so that a machine too busy for both is not mistaken for a stuck reader."""
HUNG_TICKS = 2400
"""Two minutes: no step of a recorded stream takes so long, but in a damaged file ADIOS2 may hang."""
MOST_ATTEMPTS = 20


class Supervisor:
    """Keeps one process on each stream until the stream is over.

    Parameters
    ----------
    find
        Gives the streams that are new since the last call.
    is_live
        Live readers may be replaced: the stream goes on behind a gap. A recorded stream would be
        read, and counted, a second time.
    """

    def __init__(
        self,
        forks: ForkServer,
        streams: list[AgentStream],
        find: Callable[[], list[AgentStream]],
        is_live: bool,
    ) -> None:
        self._forks = forks
        self._streams = streams
        self._find = find
        self._is_live = is_live

    def tick(self) -> None:
        """Look after all streams once; call every ``TICK_S`` seconds."""
        for stream in self._find():
            self._start(stream)
            self._streams.append(stream)
        for event in self._forks.events():
            stream = next(s for s in self._streams if s.key == event.key)
            if event.kind == "started":
                stream.pid = event.pid
            elif event.kind == "ended" and event.pid == stream.pid:
                self._ended(stream, event.code)
        for stream in self._streams:
            self._watch(stream)

    def give_up(self, stream: AgentStream) -> None:
        """Read a stream no further."""
        stream.attempts = MOST_ATTEMPTS
        if self._is_joining(stream):
            self._signal(stream, signal.SIGTERM)
            stream.pid = 0
            stream.give_up()
        else:
            self._forks.ask(Request(kill=stream.key))

    def _start(self, stream: AgentStream) -> None:
        self._forks.ask(Request(start=stream.next_attempt()))

    def _ended(self, stream: AgentStream, code: int) -> None:
        stream.pid = 0
        if stream.phase in (Phase.ENDED, Phase.BROKEN):
            stream.is_over = True
            return
        if self._is_live and stream.attempts < MOST_ATTEMPTS:
            log(f"reader of {stream.name.path} ended ({code}); another takes over")
            self._start(stream)
        else:
            log(f"reader of {stream.name.path} ended ({code}); given up")
            stream.give_up()

    def _watch(self, stream: AgentStream) -> None:
        """Kill a reader that does not drain: killed it is harmless to the application, stuck it is not."""
        heartbeat, phase = stream.box[Cell.HEARTBEAT], stream.phase
        if stream.pid == 0 or heartbeat != stream.heartbeat or phase is Phase.WAITING:
            stream.heartbeat = heartbeat
            stream.quiet_ticks = 0
            return
        if self._is_joining(stream):
            self._signal(stream, signal.SIGCONT)
            return
        stream.quiet_ticks += 1
        if stream.quiet_ticks <= (STUCK_TICKS if self._is_live else HUNG_TICKS):
            return
        stream.quiet_ticks = 0
        awaits_step = self._is_live and phase is Phase.IDLE and not _is_stopped(stream.pid)
        if not awaits_step:
            self._forks.ask(Request(kill=stream.key))

    def _is_joining(self, stream: AgentStream) -> bool:
        """Whether its reader waits to be let in: killed it would take the application with it, and stopped
        hold it up; see ``chimbuko.ad.child``. It waits no longer than the application lives."""
        return self._is_live and stream.phase is Phase.OPENING

    def _signal(self, stream: AgentStream, number: signal.Signals) -> None:
        # It may have ended, and nobody has told so yet.
        with suppress(ProcessLookupError):
            os.kill(stream.pid, number)


def _is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal: it waits for its stream, but would not notice a step."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # The process name before the state may itself contain spaces and parentheses.
    return stat.rpartition(")")[2].split()[0] in "Tt"
