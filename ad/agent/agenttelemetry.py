"""What an agent reports for others beside what its streams give: counters, and what it takes itself."""

from __future__ import annotations

import os
import time

from chimbuko.ad.agent.loads import Loads
from chimbuko.ad.agent.selfmetrics import Lag, cpu_s, memory_bytes, spool_bytes
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.core.calls.record import READING, CounterStatistics, StepCount
from chimbuko.runtime.protocol.telemetry import AgentFigures, StreamCounters

PERIOD_S = 10.0
COUNTER_GROWTH = 1.1
"""Totals of a counter are reported again when it has grown by a tenth: 145 times in a million values."""


class AgentTelemetry:
    """Goes through what streams queue for the store.

    Parameters
    ----------
    node
        Its name.
    fork_server
        Process id.
    """

    def __init__(
        self, node: str, fork_server: int, statistics: AgentStatistics, streams: list[StreamHandle]
    ) -> None:
        self._node = node
        self._fork_server = fork_server
        self._statistics = statistics
        self._streams = streams
        self._lag = Lag()
        self._loads = Loads()
        self._reported: dict[tuple[str, str], float] = {}
        """By stream and counter: how many values there were when it was reported."""
        self._reported_at = 0.0
        self._has_reported_last = False

    def note(self, stream: StreamHandle, steps: list[StepCount], counters: list[CounterStatistics]) -> None:
        """Steps that a stream has analysed, and totals of its counters where they are due; before that its
        ``health``.
        """
        now_us, now_s = time.time_ns() // 1000, time.monotonic()
        for step in steps:
            # A step without calls has no time of its own.
            if step.calls:
                self._lag.note(stream.key, step.end_us, now_us)
                self._loads.note_step(now_s, now_us - step.end_us)
        is_over = stream.health is not None and stream.health.state != READING
        reported = [one for one in counters if is_over or self._has_grown(stream.key, one)]
        if reported:
            self._reported |= {(stream.key, one.name): one.n for one in reported}
            self._statistics.note_counters(StreamCounters(stream.program, stream.name.rank, reported))

    def report(self, is_last: bool) -> None:
        """Say now and then what the agent takes, and once more at the end."""
        now = time.monotonic()
        is_due = not self._has_reported_last if is_last else now - self._reported_at >= PERIOD_S
        if not is_due:
            return
        self._reported_at, self._has_reported_last = now, is_last
        streams = list(self._streams)
        ours = [os.getpid(), self._fork_server]
        pids = ours + [stream.pid for stream in streams if stream.pid]
        taken_s = cpu_s(pids)
        read = [stream.health for stream in streams if stream.health is not None]
        self._loads.add(now, taken_s, read)
        self._statistics.note_figures(
            AgentFigures(
                node=self._node,
                streams=sum(not stream.is_over for stream in streams),
                pss_bytes=memory_bytes(pids),
                cpu_s=taken_s,
                spool_bytes=spool_bytes(stream.delivery.folder for stream in streams),
                lag_s=self._lag.take_s(),
                loads=self._loads.intervals(),
            )
        )

    def _has_grown(self, stream: str, counter: CounterStatistics) -> bool:
        return counter.n > COUNTER_GROWTH * self._reported.get((stream, counter.name), 0.0)
