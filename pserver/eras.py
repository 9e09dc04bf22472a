"""Forgetting, so that slow drift is followed: the newer calls of each function, by eras.

An era lasts until a function has enough calls again, and ends between two epochs, so that it is the
same whatever the order in which agents report.
"""

from __future__ import annotations

import numpy as np

from chimbuko.kernels.buckets import BUCKETS, medians_us
from chimbuko.moments import Float64Array
from chimbuko.tables import Int64Array

ERA_CALLS = 2500.0
"""Enough for a median to within 3 % where runtimes are spread as widely as exp(±1)."""
MEMORY_CALLS = 20_000.0
"""A function is judged by its last 20,000 to 40,000 calls: tails are known from so many to about 5 %."""


class Eras:
    """Bucket counts of functions: of the era, of the newer memory, of the older memory."""

    def __init__(self) -> None:
        self._era = np.zeros((0, BUCKETS))
        self._newer = np.zeros((0, BUCKETS))
        self._older = np.zeros((0, BUCKETS))
        self._first_median_us = np.empty(0)
        self._last_median_us = np.empty(0)

    def add(self, rows: Int64Array, counts: Float64Array) -> None:
        """Add calls, f8[n, BUCKETS], of the functions ``rows``."""
        self._reserve(int(rows.max(initial=-1)) + 1)
        np.add.at(self._era, rows, counts)

    def remembered(self, rows: Int64Array) -> Float64Array:
        """What the functions ``rows`` are judged by, f8[n, BUCKETS]."""
        return self._era[rows] + self._newer[rows] + self._older[rows]

    def end_epoch(self) -> Int64Array:
        """End the eras that are full; returns the functions of which something was forgotten."""
        full = np.flatnonzero(self._era.sum(axis=1) >= ERA_CALLS)
        if not len(full):
            return full
        medians_us(self._era[full], medians := np.empty(len(full)))
        self._last_median_us[full] = medians
        is_first = np.isnan(self._first_median_us[full])
        self._first_median_us[full[is_first]] = medians[is_first]
        self._newer[full] += self._era[full]
        self._era[full] = 0.0
        over = full[self._newer[full].sum(axis=1) >= MEMORY_CALLS]
        has_older = over[self._older[over].any(axis=1)]
        self._older[over] = self._newer[over]
        self._newer[over] = 0.0
        return has_older

    def drift(self, row: int) -> float:
        """Median of the last era relative to that of the first; 1 until there is one."""
        if row >= len(self._era) or not self._first_median_us[row] > 0:
            return 1.0
        return float(self._last_median_us[row] / self._first_median_us[row])

    def _reserve(self, rows: int) -> None:
        held = len(self._era)
        if rows <= held:
            return
        rows = max(rows, 2 * held, 64)
        for name in ("_era", "_newer", "_older"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros((rows - held, BUCKETS))]))
        for name in ("_first_median_us", "_last_median_us"):
            setattr(self, name, np.concatenate([getattr(self, name), np.full(rows - held, np.nan)]))
