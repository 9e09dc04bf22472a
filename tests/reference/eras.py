"""The end of an era, slow and obvious."""

from __future__ import annotations

import math

import numpy as np

from chimbuko.core.buckets import BUCKETS, LN_EDGES
from chimbuko.core.kernels.decay import ERA_CALLS, ERRORS, MEMORY_CALLS


class NaiveEras:
    """Of one function: counts of the era, of the newer memory, of the older memory."""

    def __init__(self) -> None:
        self.era = np.zeros(BUCKETS)
        self.newer = np.zeros(BUCKETS)
        self.older = np.zeros(BUCKETS)
        self.ln_drift = 0.0

    def end_epoch(self) -> None:
        """Follow, forget, and begin a new era, where this one is full."""
        if self.era.sum() < ERA_CALLS:
            return
        known = self.newer + self.older
        if known.any():
            moved = _quartiles(self.era) - _quartiles(known)
            spread = max(_quartiles(self.era)[2] - _quartiles(self.era)[0], LN_EDGES[2] - LN_EDGES[1])
            nearest = min(moved, key=abs)
            same_way = all(one > 0 for one in moved) or all(one < 0 for one in moved)
            if same_way and abs(nearest) >= ERRORS * spread / math.sqrt(self.era.sum()):
                self.newer, self.older = _scaled(self.newer, nearest), _scaled(self.older, nearest)
                self.ln_drift += nearest
        if self.newer.sum() >= MEMORY_CALLS:
            self.older, self.newer = self.newer, np.zeros(BUCKETS)
        self.newer = self.newer + self.era
        self.era = np.zeros(BUCKETS)

    def remembered(self) -> np.ndarray:
        """f8[BUCKETS]"""
        return self.era + self.newer + self.older


def _quartiles(counts: np.ndarray) -> np.ndarray:
    """Logarithms, lowest first; calls lie evenly in their bucket."""
    below = np.concatenate([[0.0], np.cumsum(counts)])
    found = []
    for share in (0.25, 0.5, 0.75):
        rank = share * below[-1]
        bucket = next(b for b in range(BUCKETS) if below[b + 1] > rank or b == BUCKETS - 1)
        part = (rank - below[bucket]) / counts[bucket] if counts[bucket] else 0.0
        found.append(LN_EDGES[bucket] + part * (LN_EDGES[bucket + 1] - LN_EDGES[bucket]))
    return np.array(found)


def _scaled(counts: np.ndarray, ln_factor: float) -> np.ndarray:
    """Each bucket's calls, evenly spread, moved and dealt out anew; those below 1 µs stay."""
    into = np.zeros(BUCKETS)
    into[0] = counts[0]
    for bucket in range(1, BUCKETS):
        low, high = LN_EDGES[bucket] + ln_factor, LN_EDGES[bucket + 1] + ln_factor
        for target in range(BUCKETS):
            begin = -math.inf if target == 0 else LN_EDGES[target]
            end = math.inf if target == BUCKETS - 1 else LN_EDGES[target + 1]
            overlap = min(high, end) - max(low, begin)
            if overlap > 0:
                into[target] += counts[bucket] * overlap / (high - low)
    return into
