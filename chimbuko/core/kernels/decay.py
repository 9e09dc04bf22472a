"""End of eras, compiled: following drift, and forgetting; wrapped by ``Decay`` of
``chimbuko.pserver.state.functions``.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import BUCKETS, LN_EDGES
from chimbuko.core.kernels.arrays import copy, fill, total
from chimbuko.core.kernels.buckets import count_above, exceeded_by, scaled
from chimbuko.core.kernels.declare import kernel

ERA_CALLS = 1000.0
MEMORY_CALLS = 20_000.0
"""Number of calls of a function's newer memory: it is judged by its last 20,000 to 40,000 calls, from which
tails are known to about 5 %.
"""
QUARTILES = np.array([0.75, 0.5, 0.25])
"""Shares of calls beyond each quartile. All three must have moved the same way: the median alone jumps
between modes.
"""
ERRORS = 3.0
"""Number of standard errors beyond which a quartile has moved."""
LEAST_SPREAD = LN_EDGES[2] - LN_EDGES[1]
"""Minimum distance of quartiles: that of the buckets."""

CHANGED, MOVED = 1, 2


@kernel
def end_eras(
    rows: npt.NDArray[np.int64],
    era: Float64Array,
    newer: Float64Array,
    older: Float64Array,
    ln_drift: Float64Array,
    is_changed: npt.NDArray[np.uint8],
) -> None:
    """End the era of each function of ``rows``.

    ``era``, ``newer``, ``older`` are float64[functions, BUCKETS]; ``ln_drift`` is float64[functions];
    ``is_changed``, uint8[rows], is set to CHANGED where what is remembered has changed, and to MOVED where it
    has because runtimes have.
    """
    before = np.empty(BUCKETS)
    above = np.empty(BUCKETS + 1)
    for i in range(len(rows)):
        row = rows[i]
        is_changed[i] = 0
        for bucket in range(BUCKETS):
            before[bucket] = newer[row, bucket] + older[row, bucket]
        moved = moved_by(before, era[row], above)
        if moved != 0.0:
            copy(before, newer[row])
            scaled(before, moved, newer[row])
            copy(before, older[row])
            scaled(before, moved, older[row])
            ln_drift[row] += moved
            is_changed[i] = MOVED
        if total(newer[row]) >= MEMORY_CALLS:
            if total(older[row]) > 0.0:
                is_changed[i] = max(is_changed[i], CHANGED)
            copy(older[row], newer[row])
            fill(newer[row], 0.0)
        for bucket in range(BUCKETS):
            newer[row, bucket] += era[row, bucket]
        fill(era[row], 0.0)


@kernel
def moved_by(before: Float64Array, now: Float64Array, above: Float64Array) -> float:
    """Return by how much, in the logarithm, runtimes as a whole are longer now; 0 if that may be chance.

    ``before`` and ``now`` are float64[BUCKETS]; ``above``, float64[BUCKETS + 1], is overwritten.
    """
    if total(before) == 0.0:
        return 0.0
    was, since = np.empty(3), np.empty(3)
    ln_quartiles(before, above, was)
    ln_quartiles(now, above, since)
    # Of n log-normal calls a quartile has a standard error of about 1.35 σ/√n, and they are 1.35 σ apart.
    error = max(since[2] - since[0], LEAST_SPREAD) / math.sqrt(total(now))
    nearest = since[0] - was[0]
    for i in range(1, 3):
        moved = since[i] - was[i]
        if moved * nearest <= 0.0:
            return 0.0
        if abs(moved) < abs(nearest):
            nearest = moved
    return nearest if abs(nearest) >= ERRORS * error else 0.0


@kernel
def ln_quartiles(counts: Float64Array, above: Float64Array, into: Float64Array) -> None:
    """Write the logarithms of the quartiles of ``counts``, float64[BUCKETS], lowest first, into ``into``,
    float64[3].
    """
    count_above(counts, above)
    for i in range(3):
        into[i] = exceeded_by(above, LN_EDGES, QUARTILES[i] * above[0])
