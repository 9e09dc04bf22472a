"""Drift: a function became slower for good, each of its calls a little, so that none is abnormal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.calls.waiting import Waits, waits_in

LEAST_FACTOR = 1.25
OF_RUN = 0.01
"""Share of the time of the run that a drift must have cost."""


@dataclass(frozen=True)
class Drift:
    """Function whose calls take longer now than at first."""

    program: str
    function: str
    factor: float
    usual_us: float
    """Mean runtime of a call at first; ``typical_us`` is the present one."""
    typical_us: float
    lost_us: float
    """Time that all its calls took more than they would have at first."""


def drifts_of(
    functions: Sequence[tuple[str, str]],
    counts: Float64Array,
    calls: Float64Array,
    mean_us: Float64Array,
    factors: Float64Array,
) -> list[Drift]:
    """Return functions that became slower; not those in which ranks wait, since what they wait for did.

    Parameters
    ----------
    functions
        Names of program and function.
    counts
        f8[functions, buckets]: numbers of the calls that a function is judged by, by runtime; those from
        before a drift as they would be now.
    calls, mean_us
        f8[functions] each: number and mean runtime of all calls of the run.
    factors
        f8[functions]: runtime now relative to that at first.
    """
    middles_us = np.sqrt(EDGES_US[:-1] * EDGES_US[1:])
    now_us = (counts * middles_us).sum(axis=1) / np.maximum(counts.sum(axis=1), 1.0)
    first_us = now_us / factors
    lost_us = calls * (mean_us - first_us)
    least_us = OF_RUN * float((calls * mean_us).sum())
    is_found = (factors >= LEAST_FACTOR) & (lost_us >= least_us) & (lost_us > 0.0)
    return [
        Drift(*functions[at], float(factors[at]), float(first_us[at]), float(now_us[at]), float(lost_us[at]))
        for at in np.flatnonzero(is_found).tolist()
        if waits_in(functions[at][1]) is Waits.NOT
    ]
