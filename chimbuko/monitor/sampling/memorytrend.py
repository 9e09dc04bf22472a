"""Trend of the memory of a program: by when its control group, or its node, has none left."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from chimbuko.monitor.sampling.sample import Sample
from chimbuko.monitor.sampling.span import Filling, Growth, Span

RISES = 6
"""Number of periods that follow each other in all of which memory was taken, before that is a trend: programs
take what they need at their beginning, too."""
LEAST_TAKEN = 0.5
"""Share of the memory that must be taken before its end is foretold."""
LONGEST_S = 600.0
"""Longest time before the end that is foretold: who acts upon it has that much."""
GROWN_BYTES, GROWN_SHARE = 100 << 20, 0.3
"""Least that a process must have taken, and least share of its memory, to have grown."""
LEAST_SAMPLES, MOST_SAMPLES = 8, 64
PARTS, PART_SHARE = 4, 0.1
"""Parts of its time in each of which it must have taken a share of that: who loads its data is done early."""


class MemoryTrend:
    """Memory that is taken, period by period, where it never falls."""

    def __init__(self) -> None:
        self._taken: deque[tuple[int, int]] = deque(maxlen=RISES + 1)
        """Time in µs and bytes of the newest samples."""
        self._limit_bytes = 0

    def step(self, sample: Sample, span: Span) -> Filling | None:
        """Take a sample; return by when the memory will be full, None if it does not fill, or not soon."""
        taken_bytes, limit_bytes, of_group = _memory(sample)
        if limit_bytes != self._limit_bytes:
            self._taken.clear()
            self._limit_bytes = limit_bytes
        self._taken.append((sample.wall_us, taken_bytes))
        rises = all(earlier[1] < later[1] for earlier, later in pairwise(self._taken))
        if len(self._taken) <= RISES or not rises or taken_bytes < LEAST_TAKEN * limit_bytes:
            return None
        (first_us, first_bytes), (last_us, last_bytes) = self._taken[0], self._taken[-1]
        bytes_per_s = (last_bytes - first_bytes) / max(1e-6, (last_us - first_us) / 1e6)
        left_s = (limit_bytes - last_bytes) / bytes_per_s
        if left_s > LONGEST_S:
            return None
        own = max(span.processes.values(), key=lambda one: (one.resident_bytes, one.pid), default=None)
        full_us = last_us + round(1e6 * max(0.0, left_s))
        return Filling(last_bytes, limit_bytes, bytes_per_s, full_us, of_group, own.pid if own else 0)


def _memory(sample: Sample) -> tuple[int, int, bool]:
    """Return the memory that is taken, the most that may be, and whether that is a control group's limit."""
    limited = [one for one in sample.groups.values() if one.limit_bytes]
    if limited:
        fullest = max(limited, key=lambda one: one.used_bytes / (one.limit_bytes or 1))
        return fullest.used_bytes, fullest.limit_bytes or 0, True
    memory = sample.memory
    return (
        (memory.total_bytes - memory.available_bytes, memory.total_bytes, False) if memory else (0, 0, False)
    )


class _Memory:
    """Memory of one process at some moments, which are further apart the longer it lives."""

    def __init__(self) -> None:
        self.name = ""
        self._every = 1
        self._taken: list[tuple[int, int]] = []
        """Time in us and bytes."""
        self._last = (0, 0)
        self._samples = 0

    def take(self, time_us: int, size_bytes: int) -> None:
        """Note the memory at a moment."""
        self._last = time_us, size_bytes
        if self._samples % self._every == 0:
            self._taken.append(self._last)
        self._samples += 1
        if len(self._taken) == MOST_SAMPLES:
            del self._taken[1::2]
            self._every *= 2

    def growth(self, pid: int) -> list[Growth]:
        """Return its growth, if it took more all the time."""
        first_us, first_bytes = self._taken[0]
        # A process that ends lets go of all.
        last_us, last_bytes = max((*self._taken, self._last), key=lambda one: one[1])
        if PARTS * (self._last[0] - last_us) > self._last[0] - first_us:
            return []
        grown_bytes = last_bytes - first_bytes
        if self._samples < LEAST_SAMPLES or grown_bytes < max(GROWN_BYTES, GROWN_SHARE * last_bytes):
            return []
        ends_us = [first_us + (last_us - first_us) * part / PARTS for part in range(1, PARTS)]
        marks = [next(size for us, size in reversed(self._taken) if us <= end_us) for end_us in ends_us]
        risen = [later - earlier for earlier, later in pairwise((first_bytes, *marks, last_bytes))]
        if min(risen) < PART_SHARE * grown_bytes:
            return []
        return [Growth(pid, self.name, grown_bytes, last_bytes, (last_us - first_us) / 1e6)]


class MemoryGrowth:
    """Memory of each process since it was first seen."""

    def __init__(self) -> None:
        self._processes: dict[int, _Memory] = {}
        self._ended: list[Growth] = []

    def step(self, sample: Sample) -> None:
        """Take a sample."""
        for pid in self._processes.keys() - sample.processes.keys():
            self._ended += self._processes.pop(pid).growth(pid)
        for pid, one in sample.processes.items():
            memory = self._processes.get(pid)
            if memory is None:
                memory = self._processes[pid] = _Memory()
            if pid in sample.threads:
                memory.name = sample.threads[pid].name
            memory.take(sample.time_us, one.memory.resident_bytes)

    def found(self) -> tuple[Growth, ...]:
        """Return the processes whose memory grew all the time, until now or their end."""
        living = (one for pid, memory in self._processes.items() for one in memory.growth(pid))
        return (*self._ended, *living)
