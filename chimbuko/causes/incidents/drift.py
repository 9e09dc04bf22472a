"""Drift: a function became slower for good, each of its calls a little, so that none is abnormal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US, LN_EDGES, PER_DOUBLING
from chimbuko.core.calls.waiting import AWAIT, Waits, waits_in

LEAST_FACTOR = 1.25
OF_RUN = 0.01
"""Share of the time of the run that a drift must have cost."""
LEAST_CALLS = 20
"""Number of calls below which a stretch of the run says little, and counts to the one before it."""
QUARTILES = 0.25, 0.5, 0.75
SHORTEST = 0.1
"""Share of the first calls that are shorter than what a call may have taken at first."""
ERRORS = 3.0
"""Number of standard errors beyond which quartiles have moved."""
LEAST_SPREAD = math.log(2.0) / PER_DOUBLING
"""Least distance of quartiles, in the logarithm: that of the buckets."""


class Drift(msgspec.Struct, frozen=True):
    """Function whose calls take longer now than at first."""

    program: str
    function: str
    factor: float
    usual_us: float
    """Mean runtime of a call at first; ``typical_us`` is the present one."""
    typical_us: float
    lost_us: float
    """Time that all its calls took more than they would have at first."""
    before: int = 0
    """Number of calls before it became slower; 0 if that is not known."""


class Stretch(msgspec.Struct, frozen=True):
    """Calls of a function in one stretch of the run."""

    counts: Float64Array
    """Number of calls by runtime, f8[buckets]."""
    time_us: float
    """Time of these calls without what abnormal ones lost."""

    @property
    def calls(self) -> float:
        """Return the number of calls."""
        return float(self.counts.sum())

    @property
    def mean_us(self) -> float:
        """Return the mean runtime of a call."""
        return self.time_us / max(self.calls, 1.0)


def drifts_of(
    functions: Sequence[tuple[str, str]],
    counts: Float64Array,
    calls: Float64Array,
    mean_us: Float64Array,
    factors: Float64Array,
) -> list[Drift]:
    """Return functions that became slower; not those that wait, since what they wait for did.

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
        if not _waits(functions[at][1])
    ]


def drift_over(program: str, function: str, stretches: Sequence[Stretch]) -> Drift | None:
    """Return the drift of a function out of what its calls took one stretch of the run after the other.

    All quartiles must be longer at the end than at first, so that a few long calls, or another mix of short
    and long ones, are none; and so from some stretch on without an exception.
    """
    whole = _with_enough_calls(stretches)
    if len(whole) < 2 or _waits(function):
        return None
    moved = [_moved_by(whole[0], one) for one in whole]
    since = next(at for at in range(len(moved), 0, -1) if at == 1 or moved[at - 1] < math.log(LEAST_FACTOR))
    usual_us, typical_us = _at_first_us(whole), whole[-1].mean_us
    if usual_us < whole[0].mean_us:
        since = 0
    if since == len(whole) or usual_us <= 0.0 or typical_us < LEAST_FACTOR * usual_us:
        return None
    lost_us = sum(one.time_us - usual_us * one.calls for one in whole[since:])
    before = sum(one.calls for one in whole[:since])
    slow_us = whole[since].mean_us - usual_us
    if since > 1 and slow_us > 0.0:
        # It may have begun within a stretch, which then took as much more as it has slow calls.
        within = whole[since - 1]
        more_us = max(0.0, within.time_us - usual_us * within.calls)
        lost_us += more_us
        before -= min(within.calls, more_us / slow_us)
    return Drift(program, function, typical_us / usual_us, usual_us, typical_us, lost_us, round(before))


def _at_first_us(whole: Sequence[Stretch]) -> float:
    """Return what a call took at first: the mean of the first stretch, or less if runtimes rose within it, as
    they did from each of the first stretches to the next.
    """
    first = whole[0]
    if len(whole) < 3 or not all(_moved_by(*two) > 0.0 for two in pairwise(whole[:3])):
        return first.mean_us
    per_call_us = min(
        2.0 * (later.mean_us - one.mean_us) / (one.calls + later.calls) for one, later in pairwise(whole[:3])
    )
    shortest_us = math.exp(float(_ln_quantiles(first.counts, [SHORTEST])[0]))
    return min(first.mean_us, max(shortest_us, first.mean_us - per_call_us * first.calls / 2.0))


def _waits(function: str) -> bool:
    """Whether a call of the function takes as long as what ranks or tasks wait for."""
    return waits_in(function) is not Waits.NOT or function.startswith(AWAIT)


def _with_enough_calls(stretches: Sequence[Stretch]) -> list[Stretch]:
    whole: list[Stretch] = []
    for one in stretches:
        if whole and min(whole[-1].calls, one.calls) < LEAST_CALLS:
            one = Stretch(whole[-1].counts + one.counts, whole[-1].time_us + one.time_us)
            whole.pop()
        whole.append(one)
    return whole if whole and whole[0].calls >= LEAST_CALLS else []


def _moved_by(first: Stretch, later: Stretch) -> float:
    """Return by how much all runtimes are longer, in the logarithm; 0 if that may be chance."""
    was, now = (_ln_quantiles(one.counts, QUARTILES) for one in (first, later))
    spread = max(float(was[2] - was[0]), float(now[2] - now[0]), LEAST_SPREAD)
    moved = float((now - was).min())
    return moved if moved >= ERRORS * spread / math.sqrt(min(first.calls, later.calls)) else 0.0


def _ln_quantiles(counts: Float64Array, shares: Sequence[float]) -> Float64Array:
    up_to = np.concatenate([[0.0], np.cumsum(counts)])
    quantiles: Float64Array = np.interp(np.array(shares) * up_to[-1], up_to, LN_EDGES)
    return quantiles
