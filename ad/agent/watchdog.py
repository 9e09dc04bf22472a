"""Watchdog of the agent over ranks that hang: it reports overdue calls, and which streams are silent.

A hung rank completes no call and its stream gives no step, so neither the detectors, which judge completed
calls, nor the process that reads the stream can notice.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from chimbuko.ad.agent.overduecalls import LEAST_US, OverdueSearch, breaks_off, is_long_open
from chimbuko.ad.calls.stacks import MAIN_THREAD
from chimbuko.ad.handoff.exchange import Cell, Phase
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.opencalls import OpenCalls
from chimbuko.ad.handoff.spool import SpoolDelivery, SpoolFrame, SpoolWriter
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.core.calls.record import Silence, StreamHealth
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames

LOOK_EVERY_S = 0.5
LONGEST_TICK_S = 0.5
"""Longest tick in seconds: after a longer one the agent was itself stopped, and does not know what its
streams could have given meanwhile.
"""
REPEAT_AT = 2.0
"""Factor by which a call's open time has grown when it is reported again."""


class HangWatchdog:
    """Watchdog over all streams of one agent, with a spool of its own for what it finds.

    Parameters
    ----------
    agent
        Name of the agent, and of the spool.
    folder
        Folder of the spool.
    notifier
        Notifier that is used when something was found.
    """

    def __init__(
        self,
        agent: str,
        folder: Path,
        streams: list[StreamHandle],
        statistics: AgentStatistics,
        notifier: AgentNotifier,
        config: AnalysisConfig,
    ) -> None:
        self._streams = streams
        self._notifier = notifier
        self._config = config
        self._search = OverdueSearch(statistics.model, config)
        self._spool = SpoolWriter(folder, agent, config.spool_limit_bytes)
        self.delivery = SpoolDelivery(agent, folder)
        self._reported: dict[str, dict[tuple[int, int], float]] = {}
        """Calls that were reported, by stream and by step and row, with their open time at the last report.
        """
        self._next_us: dict[str, float] = {}
        """Trace time, by stream, before which none of its calls can be overdue."""
        self._ticked_at = time.monotonic()
        self._looked_at = 0.0

    def tick(self) -> None:
        """Look at all live streams; called a few times a second."""
        now = time.monotonic()
        seconds, self._ticked_at = min(now - self._ticked_at, LONGEST_TICK_S), now
        for stream in self._streams:
            stream.rhythm.note(stream.open_calls.steps, seconds if _is_waited_for(stream) else 0.0)
            if stream.is_over or not stream.rhythm.is_silent:
                stream.silence = None
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            for stream in self._streams:
                self.look(stream)

    def lost_reports(self) -> int:
        """Return the number of reports for which there was no room; valid at the end."""
        self._spool.give_up_held()
        return self._spool.lost_records

    @property
    def newest_us(self) -> int:
        """Return the time of the newest event of all streams; 0 without one."""
        left = (stream.open_calls.read() for stream in self._streams)
        return max((opened.newest_us for opened in left if opened), default=0)

    def look_back(self, newest_us: int) -> None:
        """Report calls of recorded streams that were open where these broke off; called at their end.

        Parameters
        ----------
        newest_us
            Time of the newest event of the run, up to which calls are taken as open.
        """
        for stream in self._streams:
            opened = stream.open_calls.read()
            if opened is not None and breaks_off(opened, stream.phase is Phase.BROKEN):
                self._report(stream, opened, newest_us - opened.newest_us, stream.box[Cell.HEARTBEAT])

    def look(self, stream: StreamHandle) -> None:
        """Check whether a stream is silent, or has overdue calls; one whose process is at work is neither."""
        drained = stream.box[Cell.HEARTBEAT]
        if not _is_waited_for(stream):
            return
        now_us = stream.open_calls.newest_us + stream.rhythm.quiet_s * 1e6
        is_falling_silent = stream.rhythm.is_silent and stream.silence is None
        if not is_falling_silent and now_us < self._next_us.get(stream.key, 0.0):
            return
        opened = stream.open_calls.read()
        if opened is None:
            return
        if stream.rhythm.is_silent and stream.silence is None:
            stream.learn_names()
            stream.silence = _silence(opened, stream.names)
            stream.stood = stream.silence, 0 if stream.health is None else stream.health.calls
            self._notifier.notify()
        self._report(stream, opened, stream.rhythm.quiet_s * 1e6, drained)

    def _report(self, stream: StreamHandle, opened: OpenCalls, silence_us: float, drained: int) -> None:
        """Report the calls that have become overdue, and again those whose open time has grown by
        ``REPEAT_AT``.
        """
        before = self._reported.pop(stream.key, {})
        if not is_long_open(opened, silence_us) or not self._config.records_step(opened.step):
            first_us = int(opened.calls["entry_us"].min(initial=opened.newest_us))
            self._next_us[stream.key] = first_us + LEAST_US
            return
        stream.learn_names()
        found = self._search.find(stream.program, opened, stream.names, silence_us, stream.is_prompt)
        self._next_us[stream.key] = 0.0 if found.calls else found.next_us
        reported = self._reported[stream.key] = {}
        for one in found.calls:
            reported[one.place] = before.get(one.place, 0.0)
            if one.elapsed_us >= REPEAT_AT * reported[one.place]:
                # The stream's process is told first: if it has not gone on by then it learns of the report
                # before the call can end, and so records the end.
                stream.open_calls.report(one.report)
                if stream.box[Cell.HEARTBEAT] != drained:
                    return
                self._spool.append(SpoolFrame(one.record, [], [], _origin(stream)))
                self._notifier.notify()
                reported[one.place] = one.elapsed_us


def _origin(stream: StreamHandle) -> StreamHealth:
    """Return the stream that a batch of records belongs to, as health without totals: these are reported by
    its process alone.
    """
    return StreamHealth(stream.program, stream.name.rank, stream.node, "reading", 0, 0, 0, 0, 0, 0, {})


def _is_waited_for(stream: StreamHandle) -> bool:
    """Return whether the stream's process waits for its next step, and does nothing else."""
    return stream.pid != 0 and stream.phase is Phase.IDLE


def _silence(opened: OpenCalls, names: StreamNames) -> Silence:
    """Return where the rank was when it fell silent: on its main thread, where that has an open call."""
    calls = opened.calls
    on_main = np.flatnonzero(calls["thread"] == MAIN_THREAD)
    if not len(calls):
        return Silence(opened.newest_us, "", 0)
    innermost = int(on_main[-1]) if len(on_main) else len(calls) - 1
    name = names.timer_name(int(calls["function"][innermost]))
    stack = [names.timer_name(function) for function in calls["function"][on_main].tolist()]
    return Silence(opened.newest_us, name, int(calls["entry_us"][innermost]), stack)
