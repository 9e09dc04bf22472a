"""Telemetry of an agent beside that of its streams: totals of counters, load and resource use.

``Loads`` has the work and the CPU time of a bounded number of intervals; ``Lag`` says how far the analysis is
behind the traces. Memory and CPU time come from two files of /proc, without psutil, which every agent would
load for them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import astuple, replace

from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.core.calls.record import READING, CounterStatistics, StepCount, StreamHealth
from chimbuko.runtime.protocol.telemetry import AgentFigures, AgentLoad, StreamCounters

MOST_LOADS = 16
LONGEST_WAIT_US = 3_600_000_000
"""Age in µs beyond which a step, like one from the future, belongs to a recorded trace."""


class _Totals(msgspec.Struct, frozen=True):
    """Totals since the agent began."""

    at_s: float
    cpu_s: float
    steps: int = 0
    rows: int = 0
    size_bytes: int = 0


class Loads:
    """Load of an agent in intervals; when there are more than ``MOST_LOADS``, neighbours become one."""

    def __init__(self) -> None:
        self._before: _Totals | None = None
        self._loads: list[AgentLoad] = []
        self._waited_us = 0
        self._waits = 0
        self._first_s: float | None = None

    def note_step(self, now_s: float, wait_us: int) -> None:
        """Note that the analysis of a step that ended ``wait_us`` ago reached the agent."""
        if self._first_s is None:
            self._first_s = now_s
        if 0 <= wait_us < LONGEST_WAIT_US:
            self._waited_us += wait_us
            self._waits += 1

    def add(self, now_s: float, cpu_s: float, read: Sequence[StreamHealth]) -> None:
        """Add the totals at a time: CPU time, and what was read of each stream. An interval without a step is
        not counted: the time that the start took is no load.
        """
        sums = (sum(one.steps for one in read), sum(one.rows for one in read))
        totals = _Totals(now_s, cpu_s, *sums, sum(one.size_bytes for one in read))
        before, self._before = self._before or _Totals(now_s, cpu_s), totals
        if not self._loads and self._first_s is not None:
            # Before the first step there was no program.
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
        """Return the intervals in order."""
        return list(self._loads)


def joined(earlier: AgentLoad, later: AgentLoad) -> AgentLoad:
    """Join two intervals."""
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
    """Return the proportional memory (PSS) of these processes together: pages that they share with others are
    divided among all that do. Processes that are gone have none.

    Source: ``smaps_rollup`` in proc(5).
    """
    total_kb = 0
    for pid in pids:
        found = _PSS.search(_read(f"/proc/{pid}/smaps_rollup"))
        total_kb += int(found[1]) if found else 0
    return 1024 * total_kb


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU time of these processes and of their children that have ended."""
    ticks = 0
    for pid in pids:
        # The process name may itself contain spaces and parentheses.
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_S


def spool_bytes(folders: Iterable[Path]) -> int:
    """Return the size of the files in these folders."""
    total = 0
    for folder in folders:
        try:
            total += sum(entry.stat().st_size for entry in os.scandir(folder))
        except FileNotFoundError:
            # The spool is not made yet, or a segment was removed meanwhile: the next call sees it.
            continue
    return total


class Lag:
    """Lag of the analysis behind the traces of some streams.

    Trace clocks may be those of another day: the lag is relative to the smallest one of the stream so far.
    """

    def __init__(self) -> None:
        self._least_us: dict[str, int] = {}
        self._largest_us = 0

    def note(self, stream: str, end_us: int, now_us: int) -> None:
        """Note that a step which ended at ``end_us`` of trace time was analysed by ``now_us``."""
        behind_us = now_us - end_us
        least_us = self._least_us[stream] = min(self._least_us.get(stream, behind_us), behind_us)
        self._largest_us = max(self._largest_us, behind_us - least_us)

    def take_s(self) -> float:
        """Return the largest lag since the last call, in seconds."""
        largest_us, self._largest_us = self._largest_us, 0
        return largest_us / 1e6


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


PERIOD_S = 10.0
MEMORY_SHARE = 0.001
"""Maximum share of the time that is spent on looks at the memory of processes: the kernel walks through all
pages of one for 1.4 ms, and there is a reader for each rank.
"""
COUNTER_GROWTH = 1.1
"""Growth factor of a counter's values after which its totals are reported again: 145 times in a million
values.
"""


class AgentTelemetry:
    """Telemetry gathered from what streams queue for the store.

    Parameters
    ----------
    node
        Name of the node.
    fork_server
        Process id of the fork server.
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
        """Number of values when a counter was last reported, by stream and counter."""
        self._reported_at = 0.0
        self._has_reported_last = False
        self._pss_bytes = 0
        self._memory_due_s = 0.0

    def note(self, stream: StreamHandle, steps: list[StepCount], counters: list[CounterStatistics]) -> None:
        """Note the steps that a stream has analysed, and totals of its counters where they are due; the
        stream's ``health`` has to be set before.
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
        """Report the agent's resource use now and then, and once more at the end."""
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
                pss_bytes=self._memory_bytes(now, pids),
                cpu_s=taken_s,
                spool_bytes=spool_bytes(stream.delivery.folder for stream in streams),
                lag_s=self._lag.take_s(),
                loads=self._loads.intervals(),
            )
        )

    def _memory_bytes(self, now_s: float, pids: list[int]) -> int:
        """Return the memory of processes as of the last look at it, which is taken anew where it is due."""
        if now_s >= self._memory_due_s:
            began_s = time.thread_time()
            self._pss_bytes = memory_bytes(pids)
            self._memory_due_s = now_s + (time.thread_time() - began_s) / MEMORY_SHARE
        return self._pss_bytes

    def _has_grown(self, stream: str, counter: CounterStatistics) -> bool:
        return counter.n > COUNTER_GROWTH * self._reported.get((stream, counter.name), 0.0)
