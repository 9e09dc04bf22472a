"""Looks after the processes of an agent's streams: finds streams, starts, watches and replaces."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chimbuko.ad.handoff.exchange import Cell, Phase
from chimbuko.ad.handoff.processspecs import NO_MEMORY
from chimbuko.ad.streamprocess.forkclient import ForkServer, Request
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.calls.record import UNREADABLE_STREAMS
from chimbuko.process.lifetime import log
from chimbuko.process.signals import END
from chimbuko.trace.discovery import Transport

TICK_S = 0.25
STUCK_TICKS = 20
"""A live stream that was not drained for so many ticks (5 s) has a stuck reader. Counted in ticks of the
agent and not by the clock, so that a machine too busy for both is not mistaken for a stuck reader."""
HUNG_TICKS = 480
"""Two minutes: no step of a recorded stream takes so long, but in a damaged file ADIOS2 may hang."""
MOST_FAILURES = 12
"""Processes of a followed stream that may die one after the other without having read anything. Pauses
between them double, to ten seconds: together they are more than a minute."""
LONGEST_PAUSE_TICKS = 40
MOST_JOINS = 3
"""Processes that may join a stream over SST: each is a risk for its writer."""
REJOIN_TICKS = 8
"""Pause before another one joins (2 s)."""


class Supervisor:
    """Keeps one process on each stream until the stream is over.

    Parameters
    ----------
    find
        Gives the streams that are new since the last call.
    """

    def __init__(
        self, forks: ForkServer, streams: list[StreamHandle], find: Callable[[], list[StreamHandle]]
    ) -> None:
        self._forks = forks
        self._streams = streams
        self._find = find

    def tick(self, is_stopping: bool = False) -> None:
        """Look after all streams once; call every ``TICK_S`` seconds."""
        self.attend(is_stopping)
        for stream in self._streams:
            self._watch(stream)

    def attend(self, is_stopping: bool = False) -> None:
        """Take in what is new, and what has happened; call it when something has.

        Parameters
        ----------
        is_stopping
            Nobody writes any more: when all that is there was read, a stream is over. Processes that were
            stopped go on for that.
        """
        if is_stopping:
            self._forks.wake()
        for stream in self._find():
            if not stream.is_over:
                self._start(stream)
            self._streams.append(stream)
        for event in self._forks.events():
            stream = next(s for s in self._streams if s.key == event.key)
            if event.kind == "started":
                stream.pid = event.pid
            elif event.kind == "ended" and event.pid == stream.pid:
                self._ended(stream, event.code)
        if is_stopping:
            for stream in self._streams:
                stream.box[Cell.IS_ALL_WRITTEN] = 1
                self._signal(stream, signal.SIGCONT)

    def leave(self, stream: StreamHandle) -> None:
        """Let a stream over SST go on without us: its process leaves it in order, with its next step."""
        stream.is_abandoned = True
        if stream.is_waiting:
            stream.is_waiting = False
            stream.give_up()
        else:
            self._signal(stream, END)

    def give_up(self, stream: StreamHandle) -> None:
        """Read a stream no further."""
        stream.is_abandoned = True
        if stream.transport is Transport.SST and stream.phase is Phase.OPENING:
            # Killed it would take its writer with it: it leaves in order when it can, and without a word.
            self._signal(stream, END)
            stream.pid = 0
            stream.give_up()
        else:
            self._forks.ask(Request(kill=stream.key))

    def _start(self, stream: StreamHandle) -> None:
        stream.drained_before = stream.box[Cell.HEARTBEAT]
        self._forks.ask(Request(start=stream.next_attempt()))

    def _ended(self, stream: StreamHandle, code: int) -> None:
        stream.pid = 0
        if stream.phase in (Phase.ENDED, Phase.BROKEN):
            stream.is_over = True
        if stream.is_over:
            stream.forget_files()
            return
        if code == NO_MEMORY:
            log(f"reader of {stream.name.path} has no memory left; given up")
            stream.give_up(UNREADABLE_STREAMS)
            return
        has_read = stream.box[Cell.HEARTBEAT] != stream.drained_before
        stream.failures = 0 if has_read else stream.failures + 1
        if self._may_go_on(stream):
            log(f"reader of {stream.name.path} ended ({code}); another takes over")
            stream.pause_ticks = min((1 << stream.failures) - 1, LONGEST_PAUSE_TICKS)
            if stream.transport is Transport.SST:
                stream.pause_ticks = REJOIN_TICKS
            stream.is_waiting = stream.pause_ticks > 0
            if not stream.is_waiting:
                self._start(stream)
        else:
            log(f"reader of {stream.name.path} ended ({code}); given up")
            stream.give_up()

    def _may_go_on(self, stream: StreamHandle) -> bool:
        """A recorded stream on which a reader died is damaged."""
        if stream.is_abandoned:
            return False
        if stream.transport is Transport.SST:
            # When nobody writes any more there is nothing to join.
            return stream.attempts < MOST_JOINS and not stream.box[Cell.IS_ALL_WRITTEN]
        return stream.transport is Transport.FILES and stream.failures < MOST_FAILURES

    def _watch(self, stream: StreamHandle) -> None:
        """Kill a reader that does not drain: killed it is harmless to the application, stuck it is not."""
        if stream.is_waiting:
            stream.pause_ticks -= 1
            if stream.pause_ticks <= 0:
                stream.is_waiting = False
                self._start(stream)
            return
        looks, phase = stream.box[Cell.LOOKS], stream.phase
        if stream.pid == 0 or looks != stream.looks or phase is Phase.WAITING:
            stream.looks = looks
            stream.quiet_ticks = 0
            return
        if stream.transport is Transport.SST and phase is Phase.OPENING:
            # Killed while it joins it would take the application with it, and stopped hold it up. It waits no
            # longer than the application lives.
            self._signal(stream, signal.SIGCONT)
            return
        stream.quiet_ticks += 1
        if stream.quiet_ticks <= (HUNG_TICKS if stream.transport is Transport.RECORDED else STUCK_TICKS):
            return
        stream.quiet_ticks = 0
        # Over SST a reader waits for the next step for as long as that takes.
        awaits_step = stream.transport is Transport.SST and phase is Phase.IDLE
        if not awaits_step or _is_stopped(stream.pid):
            self._forks.ask(Request(kill=stream.key))

    def _signal(self, stream: StreamHandle, number: int) -> None:
        # It may have ended, and nobody has told so yet.
        with suppress(ProcessLookupError):
            if stream.pid:
                os.kill(stream.pid, number)


def _is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal: it waits for its stream, but would not notice a step."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # The process name before the state may itself contain spaces and parentheses.
    return stat.rpartition(")")[2].split()[0] in "Tt"
