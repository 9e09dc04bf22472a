"""Usual runtime of a function's calls, as a whole and in the course of a run. Pure.

The *level* is the mean of the logarithm over the middle of the calls, between the 10 % and the 75 % quantile:
rare long calls, which the detector is there for, have no part in it, and neither has what the operating
system takes for itself in up to a quarter of the calls.

The level of *all* calls is the logarithm of their mean, for what rare long calls cost is in no middle.

Its *course* is made of the levels of eight parts of the calls. A program does not do the same all the time,
nor does a machine; how far two runs differ in some parts more than in others says how well their difference
is known.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US

LN_EDGES = np.log(np.maximum(np.ceil(EDGES_US) - 0.5, 0.25))
"""Logarithms of the edges of buckets, f8[BUCKETS + 1]. Traces count whole µs, so the bucket that 2 µs are in
stands for 1.5 to 2.5 µs. Otherwise calls of 2.2 and of 2.4 µs could not be distinguished, though of the
latter twice as many are seen as 3 µs."""
CENTERS_US = np.exp((LN_EDGES[1:] + LN_EDGES[:-1]) / 2)
"""Runtime that stands for each bucket, f8[BUCKETS]."""
MIDDLE = (0.1, 0.75)
"""Shares of the calls between which their mean is taken."""
PARTS = 8
"""Number of parts of a run, with as many calls each."""
SPREAD_OF_QUARTILES = 1.349
LEAST_SPREAD = 0.03
"""Standard deviation of the logarithm inside a bucket: what is less cannot be seen."""
ERROR_OF_MIDDLE = 1.3
"""Variance of the mean of the middle, times n, in units of that of single calls; of the median it is 1.57."""


@dataclass(frozen=True)
class Level:
    """Usual runtime as a natural logarithm of µs, and what its error follows from."""

    ln_us: float
    calls: float
    sampling: float
    """Variance that the level of so many calls has if they are drawn by chance."""
    course: Float64Array | None = None
    """Level of each part of the calls, f8[PARTS]; None if it is not known."""
    degrees: float = 0.0
    """Degrees of freedom in which the course is known: between two times at which counts were kept it is
    taken for even."""


def level_of(counted: Float64Array) -> Level | None:
    """Return the level of calls that were counted by bucket at some times, f8[times, BUCKETS].

    None without calls.
    """
    if not len(counted) or not counted[-1].any():
        return None
    total = counted[-1]
    calls = counted.sum(axis=1)
    upper = np.concatenate(([0.0], np.cumsum(total)))
    quarters = np.interp((0.25 * upper[-1], 0.75 * upper[-1]), upper, LN_EDGES)
    spread = max(LEAST_SPREAD, float(quarters[1] - quarters[0]) / SPREAD_OF_QUARTILES)
    return Level(
        middle_mean(total),
        float(calls[-1]),
        ERROR_OF_MIDDLE * spread * spread / float(calls[-1]),
        np.array([middle_mean(part) for part in _parts(counted, calls)]),
        _degrees(calls),
    )


def level_of_mean(calls: float, mean_us: float, stddev_us: float, like: Level | None = None) -> Level | None:
    """Return the level of calls of which only mean and standard deviation are known; None if none took time.

    ``like``: a level of the same run, whose course is taken for this one's.
    """
    if calls < 1 or mean_us <= 0:
        return None
    sampling = max(stddev_us / mean_us, LEAST_SPREAD) ** 2 / calls
    if like is None:
        return Level(math.log(mean_us), calls, sampling)
    return Level(math.log(mean_us), calls, sampling, like.course, like.degrees)


def level_of_all(counted: Float64Array, calls: float, mean_us: float, stddev_us: float) -> Level | None:
    """Return the level of all calls, rare long ones included: the logarithm of their mean.

    None if none took time.

    Parameters
    ----------
    counted
        Calls by bucket that had been counted at some times, f8[times, BUCKETS]: they say how the mean goes
        in the course of the run, where it is not counted exactly.
    calls, mean_us, stddev_us
        Figures of the whole run.
    """
    if calls < 1 or mean_us <= 0:
        return None
    level = Level(math.log(mean_us), calls, (stddev_us / mean_us) ** 2 / calls)
    if not len(counted) or not counted[-1].any():
        return level
    parts = _parts(counted, counted.sum(axis=1))
    means_us = (parts @ CENTERS_US) / np.maximum(parts.sum(axis=1), 1e-9)
    course = np.log(np.maximum(means_us, CENTERS_US[0]))
    return dataclasses.replace(level, course=course, degrees=_degrees(counted.sum(axis=1)))


def middle_mean(counts: Float64Array) -> float:
    """Return mean of the logarithm over the middle of calls by bucket, f8[BUCKETS]."""
    upper = np.cumsum(counts)
    low, high = (share * upper[-1] for share in MIDDLE)
    lower = upper - counts
    begin, end = np.maximum(lower, low), np.minimum(upper, high)
    used = np.flatnonzero((end > begin) & (counts > 0))
    # Calls are taken to be spread evenly over their bucket.
    places = ((begin + end)[used] / 2 - lower[used]) / counts[used]
    ln_us = LN_EDGES[used] + places * (LN_EDGES[used + 1] - LN_EDGES[used])
    return float(np.average(ln_us, weights=(end - begin)[used]))


def _degrees(calls: Float64Array) -> float:
    """Degrees of freedom in which a course is known, of the calls that had been counted at some times."""
    shares = np.diff(calls, prepend=0.0) / calls[-1]
    return 1.0 / float((shares**2).sum()) - 1.0


def _parts(counted: Float64Array, calls: Float64Array) -> Float64Array:
    """Calls by bucket of each part, f8[PARTS, BUCKETS]."""
    counted = np.vstack([np.zeros(counted.shape[1]), counted])
    calls = np.concatenate([[0.0], calls])
    ends = np.linspace(0.0, calls[-1], PARTS + 1)
    at = np.clip(np.searchsorted(calls, ends, "left"), 1, len(calls) - 1)
    added = calls[at] - calls[at - 1]
    share = np.divide(ends - calls[at - 1], added, out=np.zeros(len(ends)), where=added > 0)
    upto = counted[at - 1] + share[:, None] * (counted[at] - counted[at - 1])
    parts: Float64Array = np.maximum(np.diff(upto, axis=0), 0.0)
    return parts
