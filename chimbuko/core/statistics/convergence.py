"""Convergence of statistics: functions of which enough is known already need not be exchanged.

A function is judged by at most its last 20,000 to 40,000 calls (``pserver/state/functions.py``), so more of
the same teach nothing: its threshold is known to about 5 %, the sampling error of a tail from so many calls.
Agents hold back what they learn of such a function, and the server its row of the model, for up to 20
periods, unless its runtimes have moved.

Within these 20 periods the thresholds that agents use are off by less than the shift that goes unnoticed, 2 %
or four standard errors of the mean runtime of what is held back, whichever is more. A larger shift comes with
the next delta.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import LN_EDGES
from chimbuko.core.statistics.schema import TableSchema

CONVERGED_CALLS = 20_000
HELD_PERIODS = 20
LEAST_SHIFT = 0.02
ERRORS = 4.0

_LN_MIDDLES = (LN_EDGES[:-1] + LN_EDGES[1:]) / 2


def has_moved(schema: TableSchema, model: Float64Array, held: Float64Array) -> npt.NDArray[np.bool_]:
    """Return whether the calls of ``held`` took longer or shorter than those of ``model``; float64[n, width]
    each.

    Compared are mean logarithms where the table counts runtimes in buckets, so that a few abnormal calls hide
    nothing; else means.
    """
    if "buckets" in schema.slices:
        calls, mean, variance = _of_buckets(model[:, schema.slices["buckets"]])
        held_calls, held_mean, _ = _of_buckets(held[:, schema.slices["buckets"]])
        shift = np.abs(held_mean - mean)
    else:
        moments, held_moments = (table[:, schema.slices["exclusive_us"]] for table in (model, held))
        calls, held_calls = moments[:, 0], held_moments[:, 0]
        mean = np.maximum(moments[:, 1], 1.0)
        variance = np.maximum(moments[:, 2], 0.0) / np.maximum(calls, 1.0) / mean**2
        shift = np.abs(held_moments[:, 1] / mean - 1.0)
    error = ERRORS * np.sqrt(variance / np.maximum(held_calls, 1.0))
    is_moved: npt.NDArray[np.bool_] = (held_calls > 0) & (shift > np.maximum(LEAST_SHIFT, error))
    return is_moved


def _of_buckets(counts: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return number, mean and variance of the logarithm of the calls' runtimes, float64[n] each."""
    calls = counts.sum(axis=1)
    of = np.maximum(calls, 1.0)
    mean = counts @ _LN_MIDDLES / of
    variance = np.maximum(counts @ _LN_MIDDLES**2 / of - mean**2, 0.0)
    return calls, mean, variance
