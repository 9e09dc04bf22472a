"""Supervision of the processes of an agent's streams: starts, watches and replaces them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from chimbuko.ad.handoff.exchange import Cell, Phase
from chimbuko.ad.handoff.processspecs import NO_MEMORY
from chimbuko.ad.streams.forkserver import ForkServer, Request
from chimbuko.ad.streams.streamhandle import StreamHandle, core_use, own_time_s
from chimbuko.capture.trace.discovery import Transport
from chimbuko.core.calls.record import UNREADABLE_STREAMS
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.signals import END

TICK_S = 0.25
STUCK_S = 5.0
"""Time in seconds without draining after which the reader of a live stream is stuck. It is counted in ticks
of the agent and not by the clock, and without waits for a core: a busy machine is no stuck reader.
"""
HUNG_S = 120.0
"""Time in seconds after which a step of a recorded stream takes too long: in a damaged file ADIOS2 may hang.
"""
SUSPECT_S = 1.0
"""Time in seconds for which a reader is quiet before the kernel is asked for its times: that takes 0.05 ms.
"""
MOST_FAILURES = {Transport.FILES: 12, Transport.RECORDED: 3}
"""Maximum number of processes that die one after the other without having committed anything. Pauses between
them double, to ten seconds: for a followed stream they are more than a minute together. A recorded one is
then damaged.
"""
LONGEST_PAUSE_TICKS = 40
MOST_JOINS = 3
"""Maximum number of processes that join a stream over SST: each is a risk for its writer."""
REJOIN_TICKS = 8
"""Pause in ticks before another process joins (2 s)."""


class Supervisor:
    """Supervisor that keeps one process on each stream until the stream is over.

    Parameters
    ----------
    find
        Callback that returns the streams that are new since the last call.
    """

    def __init__(
        self, forks: ForkServer, streams: list[StreamHandle], find: Callable[[], list[StreamHandle]]
    ) -> None:
        self._forks = forks
        self._streams = streams
        self._find = find
        self._ticked_at = time.monotonic()

    def tick(self, is_stopping: bool = False) -> None:
        """Look after all streams once; called every ``TICK_S`` seconds."""
        self.attend(is_stopping)
        now = time.monotonic()
        passed_s, self._ticked_at = now - self._ticked_at, now
        for stream in self._streams:
            if not stream.is_over:
                self._watch(stream, passed_s)

    @property
    def own_s(self) -> float:
        """Time in seconds, of the last tick, in which the readers of open streams could do something: that of
        the one with the least.
        """
        return min((stream.own_s for stream in self._streams if not stream.is_over), default=TICK_S)

    @property
    def drained(self) -> int:
        """Number of steps of all streams that were drained so far."""
        return sum(stream.box[Cell.HEARTBEAT] for stream in self._streams)

    def attend(self, is_stopping: bool = False) -> None:
        """Take in new streams and events of the fork server; called when there are any.

        Parameters
        ----------
        is_stopping
            Whether nobody writes any more: a stream is over when all that is there was read. Processes that
            were stopped are continued for that.
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
                stream.pid, stream.quiet_s, stream.core_use = event.pid, 0.0, None
            elif event.kind == "ended" and event.pid == stream.pid:
                self._ended(stream, event.code)
        if is_stopping:
            for stream in self._streams:
                stream.box[Cell.IS_ALL_WRITTEN] = 1
                self._signal(stream, signal.SIGCONT)

    def leave(self, stream: StreamHandle) -> None:
        """Leave a stream over SST, which goes on without us: its process leaves it in order, with its next
        step.
        """
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
        stream.stood_at = stream.box.next_step
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
        # A step that kills its reader does so again behind those that each successor reads anew.
        has_committed = stream.box.next_step != stream.stood_at
        stream.failures = 0 if has_committed else stream.failures + 1
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
        if stream.is_abandoned:
            return False
        if stream.transport is Transport.SST:
            # When nobody writes any more there is nothing to join.
            return stream.attempts < MOST_JOINS and not stream.box[Cell.IS_ALL_WRITTEN]
        return stream.failures < MOST_FAILURES[stream.transport]

    def _watch(self, stream: StreamHandle, passed_s: float) -> None:
        """Kill a reader that does not drain: killed it is harmless to the application, stuck it is not."""
        if stream.is_waiting:
            stream.own_s = TICK_S
            stream.pause_ticks -= 1
            if stream.pause_ticks <= 0:
                stream.is_waiting = False
                self._start(stream)
            return
        self._count_quiet(stream, passed_s)
        if stream.pid == 0:
            return
        if stream.transport is Transport.SST and stream.phase is Phase.OPENING:
            # Killed while it joins it would take the application with it, and stopped hold it up. It waits no
            # longer than the application lives.
            self._signal(stream, signal.SIGCONT)
            stream.quiet_s = min(stream.quiet_s, SUSPECT_S)
            return
        if stream.quiet_s <= (HUNG_S if stream.transport is Transport.RECORDED else STUCK_S):
            return
        stream.quiet_s = 0.0
        if stream.transport is Transport.RECORDED:
            # Another process would hang there, too.
            self.give_up(stream)
            return
        # Over SST a reader waits for the next step for as long as that takes.
        awaits_step = stream.transport is Transport.SST and stream.phase is Phase.IDLE
        if not awaits_step or (stream.core_use is not None and stream.core_use.is_stopped):
            self._forks.ask(Request(kill=stream.key))

    def _count_quiet(self, stream: StreamHandle, passed_s: float) -> None:
        """Add up the time in which a reader could have looked for a step and did not; where there is no
        reader yet, in which the fork server could have started one.
        """
        looks, before = stream.box[Cell.LOOKS], stream.core_use
        stream.own_s = TICK_S
        if looks != stream.looks or stream.phase is Phase.WAITING:
            stream.looks, stream.quiet_s, stream.core_use = looks, 0.0, None
            return
        if stream.quiet_s >= SUSPECT_S:
            stream.core_use = core_use(stream.pid or self._forks.pid)
            stream.own_s = min(own_time_s(before, stream.core_use, passed_s), TICK_S)
        stream.quiet_s += stream.own_s

    def _signal(self, stream: StreamHandle, number: int) -> None:
        # It may have ended without a report so far.
        with suppress(ProcessLookupError):
            if stream.pid:
                os.kill(stream.pid, number)
