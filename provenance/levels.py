"""How long calls of functions ordinarily take, and how far that wandered in the course of a run. Pure.

The *level* is the mean of the logarithm over the middle of the calls, between the 10 % and the 75 % quantile:
rare long calls, which the detector is there for, have no part in it, and neither has what the operating
system takes for itself in up to a quarter of the calls.

A run has *windows*: the calls between two versions of the model that were kept. The level of a window differs
from that of the run by what the machine did to all functions meanwhile, and by what remains: the function's
own wander, which says how well its level is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.kernels.buckets import EDGES_US
from chimbuko.moments import Float64Array
from chimbuko.tables import Int64Array

LN_EDGES = np.log(np.maximum(np.ceil(EDGES_US) - 0.5, 0.25))
"""f8[BUCKETS + 1]: traces count whole µs, so the bucket that 2 µs are in stands for 1.5 to 2.5 µs. Otherwise
calls of 2.2 and of 2.4 µs could not be told apart, though of the latter twice as many are seen as 3 µs."""
MIDDLE = (0.1, 0.75)
"""Shares of the calls between which their mean is taken."""
LEAST_SHARE = 1 / 16
"""Windows with a smaller share of the calls are taken together with the next one."""
SPREAD_OF_QUARTILES = 1.349
LEAST_SPREAD = 0.03
"""Standard deviation of the logarithm inside a bucket: what is less cannot be seen."""
ERROR_OF_MIDDLE = 1.3
"""Variance of the mean of the middle, times n, in units of that of single calls; of the median it is 1.57."""
SEGMENTS = 8
"""Of a run, in each of which the machine is taken to be the same."""
LEAST_FUNCTIONS = 3
"""For what is common to all to be told from what one does."""
VOTE_ERROR = 0.05
"""Functions that are known better have about one vote each in what is common; others have less."""


@dataclass(frozen=True)
class Level:
    """Natural logarithm of a runtime in µs, and what is known of its error."""

    ln_us: float
    calls: float
    sampling: float
    """Variance of the level that so many calls, drawn by chance, would have."""
    wander: float = 0.0
    """Variance between windows of the run, without what is chance and what all functions have in common."""
    degrees: float = 0.0
    """Degrees of freedom of ``wander``; 0 where it is not known."""


@dataclass(frozen=True)
class Window:
    """Calls of one function between two versions of the model."""

    begin: int
    end: int
    counts: Float64Array
    """By bucket, f8[BUCKETS]."""


def windows_of(versions: Int64Array, counts: Float64Array) -> list[Window]:
    """What was counted between the versions of a model, and before the first.

    Parameters
    ----------
    versions
        i8[n].
    counts
        f8[n, BUCKETS]: what had been counted by then.
    """
    begins = np.concatenate([[0], versions[:-1]])
    came = np.diff(counts, axis=0, prepend=0.0)
    return [
        Window(int(begin), int(end), counted)
        for begin, end, counted in zip(begins, versions, came, strict=True)
        if counted.any()
    ]


def levels_of(functions: Sequence[Sequence[Window]]) -> list[Level | None]:
    """Of all functions of a run, each with its windows in order; None without calls."""
    courses = [_Course.of(windows) for windows in map(_joined, functions)]
    machine = _Machine.of([course for course in courses if course is not None])
    return [None if course is None else course.level(machine) for course in courses]


def level_of_mean(
    calls: float, mean_us: float, stddev_us: float, wandering: Level | None = None
) -> Level | None:
    """Of calls of which only mean and standard deviation are known; None without calls that took time.

    ``wandering``: a level of the same run that wandered as this one will have.
    """
    if calls < 1 or mean_us <= 0:
        return None
    sampling = max(stddev_us / mean_us, LEAST_SPREAD) ** 2 / calls
    if wandering is None:
        return Level(math.log(mean_us), calls, sampling)
    return Level(math.log(mean_us), calls, sampling, wandering.wander, wandering.degrees)


def middle_mean(counts: Float64Array) -> float:
    """Mean of the logarithm over the middle of calls by bucket, f8[BUCKETS]."""
    upper = np.cumsum(counts)
    low, high = (share * upper[-1] for share in MIDDLE)
    lower = upper - counts
    begin, end = np.maximum(lower, low), np.minimum(upper, high)
    used = np.flatnonzero((end > begin) & (counts > 0))
    # Calls are taken as spread evenly over their bucket.
    places = ((begin + end)[used] / 2 - lower[used]) / counts[used]
    ln_us = LN_EDGES[used] + places * (LN_EDGES[used + 1] - LN_EDGES[used])
    return float(np.average(ln_us, weights=(end - begin)[used]))


def weighted_median(values: Float64Array, weights: Float64Array) -> float:
    """The value with half of the weight on either side; between two, where they meet in the middle."""
    order = np.argsort(values)
    ordered, upto = values[order], np.cumsum(weights[order])
    half = upto[-1] / 2
    at = int(np.searchsorted(upto, half))
    if math.isclose(upto[at], half) and at + 1 < len(ordered):
        return float(ordered[at] + ordered[at + 1]) / 2
    return float(ordered[at])


@dataclass(frozen=True)
class _Course:
    """How the level of one function went, window by window."""

    ln_us: float
    sampling: float
    begins: Int64Array
    ends: Int64Array
    calls: Float64Array
    deviations: Float64Array
    """f8[windows]: from their mean."""

    @classmethod
    def of(cls, windows: Sequence[Window]) -> _Course | None:
        if not windows:
            return None
        total = np.sum([window.counts for window in windows], axis=0)
        upper = np.concatenate(([0.0], np.cumsum(total)))
        quarters = np.interp((0.25 * upper[-1], 0.75 * upper[-1]), upper, LN_EDGES)
        spread = max(LEAST_SPREAD, float(quarters[1] - quarters[0]) / SPREAD_OF_QUARTILES)
        calls = np.array([window.counts.sum() for window in windows])
        levels = np.array([middle_mean(window.counts) for window in windows])
        return cls(
            middle_mean(total),
            ERROR_OF_MIDDLE * spread * spread / float(upper[-1]),
            np.array([window.begin for window in windows]),
            np.array([window.end for window in windows]),
            calls,
            levels - np.average(levels, weights=calls),
        )

    def level(self, machine: _Machine) -> Level:
        shares = self.calls / self.calls.sum()
        own = _variance(self.deviations - machine.during(self.begins, self.ends), shares)
        concentration = float((shares**2).sum())
        by_chance = self.sampling * (len(shares) - 1) / (1.0 - concentration) if len(shares) > 1 else 0.0
        calls, wander = float(self.calls.sum()), max(0.0, own - by_chance)
        return Level(self.ln_us, calls, self.sampling, wander, 1.0 / concentration - 1.0)


@dataclass(frozen=True)
class _Machine:
    """How much longer everything took than in the whole run, in each part of it."""

    times: Float64Array
    """f8[SEGMENTS + 1], in versions of the model."""
    deviations: Float64Array
    """f8[SEGMENTS]"""

    @classmethod
    def of(cls, courses: Sequence[_Course]) -> _Machine:
        """What the middle function did."""
        times = np.linspace(0.0, max((int(course.ends[-1]) for course in courses), default=1), SEGMENTS + 1)
        voting = [course for course in courses if len(course.calls) > 1]
        if len(voting) < LEAST_FUNCTIONS:
            return cls(times, np.zeros(SEGMENTS))
        centres = (times[1:] + times[:-1]) / 2
        errors = [_variance(course.deviations, course.calls / course.calls.sum()) for course in voting]
        weights = 1.0 / (np.array(errors) + VOTE_ERROR**2)
        votes = np.array(
            [
                course.deviations[np.minimum(np.searchsorted(course.ends, centres), len(course.ends) - 1)]
                for course in voting
            ]
        )
        return cls(times, np.array([weighted_median(vote, weights) for vote in votes.T]))

    def during(self, begins: Int64Array, ends: Int64Array) -> Float64Array:
        """Mean over each of some times, f8[n]."""
        summed = np.concatenate(([0.0], np.cumsum(self.deviations * np.diff(self.times))))
        added = np.interp(ends, self.times, summed) - np.interp(begins, self.times, summed)
        mean: Float64Array = added / np.maximum(ends - begins, 1)
        return mean


def _variance(values: Float64Array, shares: Float64Array) -> float:
    """Of values that each stand for a share of the calls; 0 of a single one."""
    spread = 1.0 - float((shares**2).sum())
    if len(values) < 2 or spread <= 0:
        return 0.0
    return float((shares * (values - (shares * values).sum()) ** 2).sum()) / spread


def _joined(windows: Sequence[Window]) -> list[Window]:
    """Windows that each have a fair share of the calls."""
    least = LEAST_SHARE * sum(float(window.counts.sum()) for window in windows)
    joined: list[Window] = []
    waiting: Window | None = None
    for window in windows:
        waiting = window if waiting is None else _merged(waiting, window)
        if waiting.counts.sum() >= least:
            joined.append(waiting)
            waiting = None
    if waiting is not None and joined:
        joined[-1] = _merged(joined[-1], waiting)
    return joined


def _merged(first: Window, second: Window) -> Window:
    return Window(first.begin, second.end, first.counts + second.counts)
