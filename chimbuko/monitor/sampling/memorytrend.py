"""Trend of the memory of a program: by when its control group, or its node, has none left."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from chimbuko.monitor.sampling.sample import Sample
from chimbuko.monitor.sampling.span import Filling, Span

RISES = 6
"""Number of periods that follow each other in all of which memory was taken, before that is a trend: programs
take what they need at their beginning, too."""
LEAST_TAKEN = 0.5
"""Share of the memory that must be taken before its end is foretold."""
LONGEST_S = 600.0
"""Longest time before the end that is foretold: who acts upon it has that much."""


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
