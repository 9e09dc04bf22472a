"""What an agent reports for others beside what its streams give: counters, and what it takes itself.

What came to an agent in each of a bounded number of intervals, and what it took for it.

What an agent takes for itself: memory and CPU time of its processes, and how far it is behind.

Two files of /proc, without psutil, which every agent would load for them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.core.calls.record import READING, CounterStatistics, StepCount, StreamHealth
from chimbuko.runtime.protocol.telemetry import AgentFigures, AgentLoad, StreamCounters

MOST_LOADS = 16
LONGEST_WAIT_US = 3_600_000_000
"""A step that is older, or younger than now, is of a trace that was recorded."""


@dataclass(frozen=True)
class _Totals:
    """Since the agent began."""

    at_s: float
    cpu_s: float
    steps: int = 0
    rows: int = 0
    size_bytes: int = 0


class Loads:
    """Makes intervals of totals; when there are more than ``MOST_LOADS``, neighbours become one."""

    def __init__(self) -> None:
        self._before: _Totals | None = None
        self._loads: list[AgentLoad] = []
        self._waited_us = 0
        self._waits = 0
        self._first_s: float | None = None

    def note_step(self, now_s: float, wait_us: int) -> None:
        """The analysis of a step that had ended so long ago reached the agent."""
        if self._first_s is None:
            self._first_s = now_s
        if 0 <= wait_us < LONGEST_WAIT_US:
            self._waited_us += wait_us
            self._waits += 1

    def add(self, now_s: float, cpu_s: float, read: Sequence[StreamHealth]) -> None:
        """Totals at a time: CPU time, and what was read of each stream. An interval without a step is none:
        what the start took is no load.
        """
        sums = (sum(one.steps for one in read), sum(one.rows for one in read))
        totals = _Totals(now_s, cpu_s, *sums, sum(one.size_bytes for one in read))
        before, self._before = self._before or _Totals(now_s, cpu_s), totals
        if not self._loads and self._first_s is not None:
            # Until then there was no program.
            before = replace(before, at_s=self._first_s)
        seconds, took_s, steps, rows, size_bytes = (
            now - then for now, then in zip(astuple(totals), astuple(before), strict=True)
        )
        if seconds <= 0 or steps <= 0:
            return
        wait_s = self._waited_us / self._waits / 1e6 if self._waits else None
        self._waited_us = self._waits = 0
        streams = sum(one.rows > 0 for one in read)
        load = AgentLoad(seconds, streams, steps, rows, size_bytes, max(took_s, 0.0), wait_s)
        if len(self._loads) == MOST_LOADS:
            pairs = zip(self._loads[::2], self._loads[1::2], strict=True)
            self._loads = [joined(earlier, later) for earlier, later in pairs]
        self._loads.append(load)

    def intervals(self) -> list[AgentLoad]:
        """In order."""
        return list(self._loads)


def joined(earlier: AgentLoad, later: AgentLoad) -> AgentLoad:
    """Two intervals as one."""
    both = (earlier, later)
    waits = [(one.wait_s, one.steps) for one in both if one.wait_s is not None]
    waited = sum(steps for _, steps in waits)
    return AgentLoad(
        sum(one.seconds for one in both),
        max(one.streams for one in both),
        sum(one.steps for one in both),
        sum(one.rows for one in both),
        sum(one.size_bytes for one in both),
        sum(one.cpu_s for one in both),
        sum(wait_s * steps for wait_s, steps in waits) / waited if waited else None,
    )


_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PSS = re.compile(r"^Pss: +(\d+) kB", re.MULTILINE)


def memory_bytes(pids: Iterable[int]) -> int:
    """Proportional memory of these processes together: what they share with others is divided among all that
    do. Those that are gone have none.

    Source: ``smaps_rollup`` in proc(5).
    """
    total_kb = 0
    for pid in pids:
        found = _PSS.search(_read(f"/proc/{pid}/smaps_rollup"))
        total_kb += int(found[1]) if found else 0
    return 1024 * total_kb


def cpu_s(pids: Iterable[int]) -> float:
    """CPU time of these processes and of those children of theirs that have ended."""
    ticks = 0
    for pid in pids:
        # The process name may itself contain spaces and parentheses.
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_S


def spool_bytes(folders: Iterable[Path]) -> int:
    """Size of the files in these folders."""
    total = 0
    for folder in folders:
        try:
            total += sum(entry.stat().st_size for entry in os.scandir(folder))
        except FileNotFoundError:
            # Not made yet, or a segment was removed meanwhile; the next time shows.
            continue
    return total


class Lag:
    """How far the analysis is behind the traces of some streams.

    Trace clocks may be those of another day: what counts is by how much a stream is further behind than it
    ever was least.
    """

    def __init__(self) -> None:
        self._least_us: dict[str, int] = {}
        self._largest_us = 0

    def note(self, stream: str, end_us: int, now_us: int) -> None:
        """A step that ended at ``end_us`` of trace time was analysed by ``now_us``."""
        behind_us = now_us - end_us
        least_us = self._least_us[stream] = min(self._least_us.get(stream, behind_us), behind_us)
        self._largest_us = max(self._largest_us, behind_us - least_us)

    def take_s(self) -> float:
        """The largest since the last time."""
        largest_us, self._largest_us = self._largest_us, 0
        return largest_us / 1e6


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


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
