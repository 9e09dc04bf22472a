"""Forgetting and following: the newer calls of each function, brought to the level of the newest.

An era lasts until a function has 1,000 calls again, and ends between two epochs, so that it is the same
whatever the order in which agents report. Where the runtimes of an era are longer or shorter than those
before as a whole, what was known before is scaled to them: slow drift is followed, and its extent known.
"""

from __future__ import annotations

import math

import numpy as np

from chimbuko.kernels.buckets import BUCKETS, LN_EDGES, count_above, exceeded_by, scaled
from chimbuko.moments import Float64Array
from chimbuko.tables import Int64Array

ERA_CALLS = 1000.0
MEMORY_CALLS = 20_000.0
"""A function is judged by its last 20,000 to 40,000 calls: tails are known from so many to about 5 %."""
QUARTILES = np.array([0.75, 0.5, 0.25])
"""Shares of calls beyond. All three must have moved the same way: the median alone jumps between modes."""
ERRORS = 3.0
"""... by more than so many standard errors of a quartile."""


class Eras:
    """Bucket counts of functions: of the era, of the newer memory, of the older memory."""

    def __init__(self) -> None:
        self._era = np.zeros((0, BUCKETS))
        self._newer = np.zeros((0, BUCKETS))
        self._older = np.zeros((0, BUCKETS))
        self._ln_drift = np.zeros(0)

    def add(self, rows: Int64Array, counts: Float64Array) -> None:
        """Add calls, f8[n, BUCKETS], of the functions ``rows``."""
        self._reserve(int(rows.max(initial=-1)) + 1)
        np.add.at(self._era, rows, counts)

    def begin_with(self, row: int, counts: Float64Array) -> None:
        """Calls f8[BUCKETS] of a function that are known from before: its oldest."""
        self._reserve(row + 1)
        self._older[row] += counts

    def remembered(self, rows: Int64Array) -> Float64Array:
        """What the functions ``rows`` are judged by, f8[n, BUCKETS]."""
        return self._era[rows] + self._newer[rows] + self._older[rows]

    def end_epoch(self) -> list[int]:
        """End the eras that are full; returns the functions of which something changed."""
        changed = []
        for row in np.flatnonzero(self._era.sum(axis=1) >= ERA_CALLS).tolist():
            if self._follow(row) | self._forget(row):
                changed.append(row)
            self._newer[row] += self._era[row]
            self._era[row] = 0.0
        return changed

    def drift(self, row: int) -> float:
        """How much longer calls of a function take than at first, as a factor."""
        return math.exp(self._ln_drift[row]) if row < len(self._ln_drift) else 1.0

    def _follow(self, row: int) -> bool:
        """Bring what was known before to the level of the era, if that is another."""
        known = self._newer[row] + self._older[row]
        if not known.any():
            return False
        before, now = _ln_quartiles(known), _ln_quartiles(self._era[row])
        moved = now - before
        # Of n log-normal calls a quartile has a standard error of about 1.35 σ/√n, and they are 1.35 σ apart.
        error = max(now[2] - now[0], LN_EDGES[2] - LN_EDGES[1]) / math.sqrt(self._era[row].sum())
        nearest = moved[np.argmin(np.abs(moved))]
        if abs(nearest) < ERRORS * error or not (np.sign(moved) == np.sign(nearest)).all():
            return False
        for memory in (self._newer, self._older):
            scaled(memory[row].copy(), nearest, memory[row])
        self._ln_drift[row] += nearest
        return True

    def _forget(self, row: int) -> bool:
        if self._newer[row].sum() < MEMORY_CALLS:
            return False
        is_forgotten = bool(self._older[row].any())
        self._older[row] = self._newer[row]
        self._newer[row] = 0.0
        return is_forgotten

    def _reserve(self, rows: int) -> None:
        held = len(self._era)
        if rows <= held:
            return
        rows = max(rows, 2 * held, 64)
        for name in ("_era", "_newer", "_older"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros((rows - held, BUCKETS))]))
        self._ln_drift = np.concatenate([self._ln_drift, np.zeros(rows - held)])


def _ln_quartiles(counts: Float64Array) -> Float64Array:
    above = np.empty(BUCKETS + 1)
    count_above(counts, above)
    return np.array([exceeded_by(above, LN_EDGES, share * above[0]) for share in QUARTILES])
