"""Change points of many quantities over the runs of a series. Pure.

Each quantity is divided into stretches with the least sum of squares and a penalty for each (the objective of
PELT, solved exactly). A place between two stretches counts where the runs after it lie further from those
before than chance explains: by normal scores among the residuals of the whole series, so that its noise is
taken as it is, with long tails, and with its autocorrelation. The chance is corrected for all quantities and
all runs at which something could have changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from chimbuko.core.arrays import BoolArray, Float64Array, Int64Array

LEAST_RUNS = 3
"""Number of runs that a stretch has at least."""
LEAST_SERIES = 8
"""Number of runs below which nothing is said: a noise of so few is none."""
PENALTY = 6.0
"""Cost of a further stretch, in units of the variance, besides the logarithm of the number of runs: a low
one, as places are tested afterwards.
"""
CLIPPED = 4.0
"""Distance from the running median, in standard deviations, at which a run's value is cut off for the
division.
"""
LONE = 2
"""Most runs so far from all neighbours that are left out, like the first one of a cold machine: they make no
stretch. More of them are the noise of the series.
"""
AROUND = 7
"""Number of runs of the running median."""
CHANCE = 0.1
"""Chance that anything is found in a whole series of an unchanged program."""
MOST_AUTOCORRELATION = 0.8
HALF_KNOWN_RUNS = 60.0
"""Number of runs at which the autocorrelation that is usual of a series is believed by half."""
FAR, FEW = 2.5, 40.0
"""Maximum by which the score of a value beyond all residuals exceeds that of the largest of them. It grows
with the logarithm of the distance, as the next value of a long tail may lie far out; and falls with the root
of the number of residuals beyond ``FEW``, as the tail is known by then.
"""


class ChangePoint(msgspec.Struct, frozen=True):
    """Change of one quantity."""

    quantity: int
    at: int
    """Index of the first run after the change."""
    shift: float
    """Difference of the medians after and before."""
    before: float
    after: float
    """Medians of the stretches before and after the change."""
    chance: float
    """Chance of as much where nothing has changed, corrected for all quantities and runs."""


def change_points(values: Float64Array, least: float = 0.0) -> list[ChangePoint]:
    """Return the change points of all quantities, by run and quantity.

    Parameters
    ----------
    values
        Float64[runs, quantities]; NaN where a value is not known.
    least
        Least shift that is worth telling.
    """
    runs = len(values)
    if runs < LEAST_SERIES or not values.shape[1]:
        return []
    quantities = values.shape[1]
    comparisons = runs * quantities
    together = _autocorrelations(values)
    found: list[ChangePoint] = []
    middle, spread = _running_median(values), _spread(values)
    values = np.where(_are_lone(np.abs(values - middle) > CLIPPED * spread), np.nan, values)
    for quantity, places in enumerate(_divided(_clipped(values, middle, spread))):
        known = np.flatnonzero(np.isfinite(values[:, quantity]))
        if len(known) < LEAST_SERIES:
            continue
        inner = np.searchsorted(known, places)
        limit = CHANCE / comparisons
        found += [
            ChangePoint(
                quantity,
                at=int(known[at]),
                shift=one.after - one.before,
                before=one.before,
                after=one.after,
                chance=one.chance * comparisons,
            )
            for at, one in _sure(values[known, quantity], inner, together[quantity], limit, least)
        ]
    return sorted(found, key=lambda one: (one.at, one.quantity))


class _Tested(msgspec.Struct, frozen=True):
    chance: float
    before: float
    after: float


def _running_median(values: Float64Array) -> Float64Array:
    half = AROUND // 2
    padded = np.pad(values, ((half, half), (0, 0)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, AROUND, axis=0)
    with np.errstate(all="ignore"):
        return _nan_median(windows)


def _nan_median(windows: Float64Array) -> Float64Array:
    """Return medians over the last axis without NaN; NumPy's own is fifty times as slow."""
    ordered = np.sort(windows, axis=-1)
    number = np.isfinite(ordered).sum(axis=-1)
    low, high = np.maximum(number - 1, 0) // 2, number // 2
    picked = [
        np.take_along_axis(ordered, np.minimum(at, ordered.shape[-1] - 1)[..., None], -1)[..., 0]
        for at in (low, high)
    ]
    median: Float64Array = np.where(number > 0, (picked[0] + picked[1]) / 2, np.nan)
    return median


def _spread(values: Float64Array) -> Float64Array:
    """Return the standard deviation of each quantity between neighbours, by the median of differences."""
    steps = np.abs(np.diff(values, axis=0))
    spread = 1.4826 * _nan_median(steps.T) / math.sqrt(2.0)
    whole = np.array([np.nanstd(column) if np.isfinite(column).any() else 0.0 for column in values.T])
    # Where most neighbours are equal, as of what is mostly 0.
    floor = np.maximum(1e-9, 0.1 * whole)
    return np.maximum(np.nan_to_num(spread), floor)


def _are_lone(is_far: BoolArray) -> BoolArray:
    """Return the few runs that are far from their neighbours without any beside them that is."""
    beside = np.zeros_like(is_far)
    beside[1:] |= is_far[:-1]
    beside[:-1] |= is_far[1:]
    alone = is_far & ~beside
    few: BoolArray = alone & (alone.sum(axis=0) <= LONE)
    return few


def _clipped(values: Float64Array, middle: Float64Array, spread: Float64Array) -> Float64Array:
    """Return values in units of the spread, those far from their neighbours cut off."""
    off = np.clip(values - middle, -CLIPPED * spread, CLIPPED * spread)
    clipped: Float64Array = (middle + off) / spread
    return clipped


def _autocorrelations(values: Float64Array) -> Float64Array:
    """Return the autocorrelation of each quantity, as far as it is known: at least what is usual of all.

    It follows from how much further runs lie apart that have one between them, which a few changes do not
    alter.
    """
    near, next_but_one = (_nan_median(np.abs(values[lag:] - values[:-lag]).T) ** 2 for lag in (1, 2))
    known = np.isfinite(near) & np.isfinite(next_but_one) & (near > 0.0)
    found = np.where(known, next_but_one, 1.0) / np.where(known, near, 1.0) - 1.0
    # That of a single one is known poorly, with a standard error of about 2.5 / √n. So is what is usual of
    # all in a short series, as quantities change together.
    usual = _median(found[known]) * len(values) / (len(values) + HALF_KNOWN_RUNS) if known.any() else 0.0
    least: Float64Array = np.maximum(usual, found - 8.0 / math.sqrt(len(values)))
    return least


def _divided(values: Float64Array) -> list[Int64Array]:
    """Return the first runs of all stretches but the first one, for each quantity, at the least cost."""
    runs, quantities = values.shape
    known = np.isfinite(values)
    plain = np.where(known, values, 0.0)
    plain = plain - plain.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    plain = np.where(known, plain, 0.0)
    zero = np.zeros((1, quantities))
    number, total, squares = (
        np.vstack([zero, np.cumsum(column, axis=0)]) for column in (known.astype(np.float64), plain, plain**2)
    )
    penalty = PENALTY + math.log(runs)
    best = np.zeros((runs + 1, quantities))
    begin = np.zeros((runs + 1, quantities), np.int64)
    best[1:LEAST_RUNS] = np.inf
    for end in range(LEAST_RUNS, runs + 1):
        first = end - LEAST_RUNS + 1
        count = number[end] - number[:first]
        cost = squares[end] - squares[:first] - (total[end] - total[:first]) ** 2 / np.maximum(count, 1.0)
        cost += best[:first] + penalty
        # A stretch needs as many known values, unless it is the first one.
        cost[1:][count[1:] < LEAST_RUNS] = np.inf
        begin[end] = cost.argmin(axis=0)
        best[end] = np.take_along_axis(cost, begin[end][None], 0)[0]
    found = []
    for quantity in range(quantities):
        places, end = [], runs
        while (end := int(begin[end, quantity])) > 0:
            places.append(end)
        found.append(np.array(places[::-1], np.int64))
    return found


def _sure(
    values: Float64Array, places: Int64Array, together: float, limit: float, least: float
) -> list[tuple[int, _Tested]]:
    """Return the places that mean something: those that mean least are taken out one after the other.

    Parameters
    ----------
    limit
        Chance from which on a place means nothing.
    """
    kept = [int(place) for place in places]
    while kept:
        noise = _Noise.of(values, kept, together)
        bounds = [0, *kept, len(values)]
        tests = [
            noise.test(values[before:at], values[at:after])
            for before, at, after in zip(bounds, kept, bounds[2:], strict=False)
        ]
        # What is too small to be told goes first: it is none of the noise that others are compared with.
        worst = max(
            range(len(kept)),
            key=lambda at: (abs(tests[at].after - tests[at].before) < least, tests[at].chance),
        )
        is_small = abs(tests[worst].after - tests[worst].before) < least
        if not is_small and tests[worst].chance <= limit:
            return list(zip(kept, tests, strict=True))
        del kept[worst]
    return []


class _Noise(msgspec.Struct, frozen=True):
    """Noise of a quantity: its residuals in all stretches, in order, and what neighbours have in common."""

    ordered: Float64Array
    scores: Float64Array
    scale: float
    inflation: float
    degrees: float
    """Number of residuals without what the medians of the stretches took."""

    @classmethod
    def of(cls, values: Float64Array, places: Sequence[int], together: float) -> _Noise:
        residuals = np.concatenate([part - _median(part) for part in np.split(values, places)])
        ordered = np.sort(residuals)
        count = len(ordered)
        scores = _normal_quantile((np.arange(count) + 0.5) / count)
        low, high = np.interp([0.16, 0.84], (np.arange(count) + 0.5) / count, ordered)
        scale = max(float(high - low) / 2, 1e-12)
        clipped = np.clip(residuals, -3 * scale, 3 * scale)
        power = float(clipped @ clipped)
        of_residuals = float(clipped[1:] @ clipped[:-1]) / power if power > 0.0 else 0.0
        together = min(max(together, of_residuals - 1.0 / math.sqrt(count), 0.0), MOST_AUTOCORRELATION)
        degrees = max(1.0, count - 2.0 * (len(places) + 1))
        inflation = (1.0 + together) / (1.0 - together) * count / degrees
        return cls(ordered, scores, scale, inflation, degrees)

    def score(self, residuals: Float64Array) -> Float64Array:
        """Return normal scores of residuals among those of the series."""
        low = np.searchsorted(self.ordered, residuals, "left")
        high = np.searchsorted(self.ordered, residuals, "right")
        count = len(self.ordered)
        scores = np.interp((low + high) / 2 - 0.5, np.arange(count), self.scores)
        most = FAR * min(1.0, math.sqrt(FEW / count))
        above, below = (
            np.minimum(np.log1p(np.maximum(beyond, 0.0) / self.scale), most)
            for beyond in (residuals - self.ordered[-1], self.ordered[0] - residuals)
        )
        found: Float64Array = scores + above - below
        return found

    def test(self, before: Float64Array, after: Float64Array) -> _Tested:
        """Return the chance that the runs after lie so far from those before, and the medians of both."""
        left, right = _median(before), _median(after)
        error = math.sqrt(self.inflation * (1.0 / len(before) + 1.0 / len(after)))
        # As seen from either side: the noise need not be symmetric.
        seen = (
            self.score(after - left).mean() - self.score(before - left).mean(),
            self.score(after - right).mean() - self.score(before - right).mean(),
        )
        t = min(abs(one) for one in seen) / error if seen[0] * seen[1] > 0.0 else 0.0
        return _Tested(math.erfc(_normal_of(t, self.degrees) / math.sqrt(2.0)), left, right)


def _normal_of(t: float, degrees: float) -> float:
    """Return the normal quantile as rare as one of Student's distribution (Wallace's approximation)."""
    share = (8.0 * degrees + 1.0) / (8.0 * degrees + 3.0)
    return share * math.sqrt(degrees * math.log1p(t * t / degrees))


def _normal_quantile(shares: Float64Array) -> Float64Array:
    """Return quantiles of the normal distribution, by bisection of its tables (scipy takes 0.8 s to load)."""
    grid = np.linspace(-6.0, 6.0, 2401)
    below = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in grid.tolist()])
    quantiles: Float64Array = np.interp(shares, below, grid)
    return quantiles


def _median(values: Float64Array) -> float:
    """Return the median; that of numpy loads its masked arrays, which take 30 ms."""
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2.0
