"""Which differences between the levels of two runs are more than chance. Pure.

Of a million calls the smallest difference is "significant" if calls are drawn by chance; they are not. What
the machine does meanwhile moves whole runs. So the error of a difference is made of

- how far the difference wanders in the course of the runs: a program's phases are in both and drop out;
- by how much everything takes longer, which is separated, as the middle function does;
- how far functions lie from that beyond their own errors, those aside that have clearly changed.

Sources: moderated variances after Smyth 2004 (limma); the spread between runs as in a meta-analysis with
random effects, by medians; several tests at once after Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.provenance.compare.levels import PARTS, Level

LEAST_CALLS = 20
"""In both runs, for a function to be judged."""
LEAST_FUNCTIONS = 3
"""For what is common to all to be separated from what one does."""
MOST_ERROR = 0.3
"""Functions with a larger one say nothing of what is common."""
VOTE_ERROR = 0.05
"""Functions that are known better have about one vote each in what is common; others have less."""
USUAL_WANDER = 0.015
"""Standard deviation, in the course of two runs, of their difference on a machine that does nothing else."""
USUAL_WANDER_DEGREES = 4.0
"""Testimony that is worth."""
LEAST_DEGREES = 1.0
"""For a function to say itself how far it wanders."""
USUAL_SPREAD = 0.015
"""Standard deviation between runs of the same, of one function against the others."""
ALONE_SPREAD = 0.05
"""Of one function, where there are not enough functions to see what all have in common."""
USUAL_SPREAD_FUNCTIONS = 4.0
"""How many functions' testimony that is worth."""
CHANGED = 4.0
"""Functions that lie so many standard deviations from what is common do not say how far others may lie."""
ROUNDS = 3
MEDIAN_OF_NORMAL = 0.6745
"""Half of normal deviates are smaller than so many standard deviations."""
VARIANCE_OF_MEDIAN = 1.57
"""Variance of the median of n normal deviates, times n, in units of that of their mean."""
VARIANCE_OF_SPREAD = 2.7
"""Variance of a spread that is estimated by a median, in units of that of a standard deviation."""


@dataclass(frozen=True)
class Shifts:
    """Differences of levels, as natural logarithms, the second run less the first; f8[n] each."""

    common: float
    """What all functions have in common; already taken off the others."""
    net: Float64Array
    """NaN where there are too few calls."""
    half_width: Float64Array
    """Of an interval that holds the true difference with a confidence of 95 %."""
    p_value: Float64Array
    """That chance alone brings one so large among all of these."""


def shifts_between(before: Sequence[Level | None], after: Sequence[Level | None], is_net: bool) -> Shifts:
    """Of functions that are in both runs, in the same order.

    ``is_net``: what all have in common is taken off, for it is the machine's more often than the program's.
    """
    count = len(before)
    net, half_width, p_value = np.full(count, np.nan), np.full(count, np.nan), np.ones(count)
    judged = {
        at: (a, b)
        for at, (a, b) in enumerate(zip(before, after, strict=True))
        if a is not None and b is not None and min(a.calls, b.calls) >= LEAST_CALLS
    }
    if not judged:
        return Shifts(0.0, net, half_width, p_value)
    pairs = list(judged.values())
    raw = np.array([b.ln_us - a.ln_us for a, b in pairs])
    own = _own_errors(pairs)
    common, between = _common(raw, own.variance, is_net)
    all_errors = own.plus(between)
    error = np.sqrt(all_errors.variance)
    places = list(judged)
    net[places] = raw - common
    half_width[places] = error * half_width_95(all_errors.degrees)
    p_value[places] = adjusted(two_sided_p((raw - common) / error, all_errors.degrees))
    return Shifts(common, net, half_width, p_value)


@dataclass(frozen=True)
class _Errors:
    """Variances, and their degrees of freedom; f8[n]."""

    variance: Float64Array
    degrees: Float64Array

    def plus(self, other: _Errors) -> _Errors:
        """Of both together (Welch, Satterthwaite)."""
        variance = self.variance + other.variance
        inverse = self.variance**2 / self.degrees + other.variance**2 / other.degrees
        return _Errors(variance, variance**2 / inverse)


def _own_errors(pairs: Sequence[tuple[Level, Level]]) -> _Errors:
    """What is known from each function alone: by chance, and by how far the difference wanders.

    Its variance over the parts of the runs is not divided by their number: parts that follow each other are
    alike. One that wanders little, by the few parts that there are, is not trusted. What is usual is taken
    from the other functions only where nothing is known of the function itself, for short ones wander ten
    times as far as long ones.
    """
    sampling = np.array([a.sampling + b.sampling for a, b in pairs])
    degrees = np.array([min(a.degrees, b.degrees) for a, b in pairs])
    courses = np.array(
        [np.zeros(PARTS) if a.course is None or b.course is None else b.course - a.course for a, b in pairs]
    )
    is_known = degrees >= LEAST_DEGREES
    deviations = courses - courses.mean(axis=1, keepdims=True)
    if is_known.sum() >= LEAST_FUNCTIONS:
        machine = _medians(deviations[is_known])
        deviations = deviations - (machine - machine.mean())
    by_chance = (degrees + 1.0) * sampling
    wander = np.maximum(0.0, (deviations**2).sum(axis=1) / (PARTS - 1) - by_chance)
    of_others = float(np.median(wander[is_known])) if is_known.any() else 0.0
    usual = np.where(is_known, USUAL_WANDER**2, max(USUAL_WANDER**2, of_others))
    pooled = degrees + USUAL_WANDER_DEGREES
    moderated = (
        np.where(is_known, degrees * wander, degrees * usual) + USUAL_WANDER_DEGREES * usual
    ) / pooled
    return _Errors(sampling, np.full(len(pairs), math.inf)).plus(_Errors(moderated, pooled))


def _medians(deviations: Float64Array) -> Float64Array:
    """What the middle function does in each part, f8[PARTS]."""
    weights = 1.0 / (deviations.var(axis=1) + VOTE_ERROR**2)
    return np.array([weighted_median(part, weights) for part in deviations.T])


def _common(raw: Float64Array, own: Float64Array, is_net: bool) -> tuple[float, _Errors]:
    """What functions have in common, and how far each may lie from that without having changed."""
    reports = own < MOST_ERROR**2
    witnesses = int(reports.sum())
    if not is_net or witnesses < LEAST_FUNCTIONS:
        # Who wants nothing taken off says that the machine is the same.
        usual = ALONE_SPREAD if is_net else USUAL_SPREAD
        return 0.0, _Errors(np.full(len(raw), usual**2), np.full(len(raw), USUAL_SPREAD_FUNCTIONS))
    weights = np.where(reports, 1.0 / (own + VOTE_ERROR**2), 0.0)
    is_same = np.ones(len(raw), np.bool_)
    for _ in range(ROUNDS):
        common = weighted_median(raw, weights * is_same)
        spread = _spread_between(raw - common, own, weights * is_same)
        between = (witnesses * spread**2 + USUAL_SPREAD_FUNCTIONS * USUAL_SPREAD**2) / (
            witnesses + USUAL_SPREAD_FUNCTIONS
        )
        is_same = np.abs(raw - common) < CHANGED * np.sqrt(own + between)
    of_common = VARIANCE_OF_MEDIAN * (between + float(np.median(own))) / witnesses
    degrees = witnesses / VARIANCE_OF_SPREAD + USUAL_SPREAD_FUNCTIONS
    return common, _Errors(np.full(len(raw), between + of_common), np.full(len(raw), degrees))


def _spread_between(residuals: Float64Array, own: Float64Array, weights: Float64Array) -> float:
    """Standard deviation that functions must have beyond their own errors for the middle one of their
    residuals to be as large as it is; 0 where their own errors are enough.
    """
    low, high = 0.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2
        scores = np.abs(residuals) / np.sqrt(own + middle * middle)
        if weighted_median(scores, weights) > MEDIAN_OF_NORMAL:
            low = middle
        else:
            high = middle
    return low


def weighted_median(values: Float64Array, weights: Float64Array) -> float:
    """The value with half of the weight on either side; between two, where they meet in the middle."""
    order = np.argsort(values)
    ordered, upto = values[order], np.cumsum(weights[order])
    half = upto[-1] / 2
    at = int(np.searchsorted(upto, half))
    if math.isclose(upto[at], half) and at + 1 < len(ordered):
        return float(ordered[at] + ordered[at + 1]) / 2
    return float(ordered[at])


def two_sided_p(t: Float64Array, degrees: Float64Array) -> Float64Array:
    """The probability that Student's t is as far from 0."""
    # Here because it takes 0.2 s and 20 MB, which a server that compares nothing need not pay.
    from scipy.special import stdtr

    p_value: Float64Array = 2 * stdtr(degrees, -np.abs(t))
    return p_value


def half_width_95(degrees: Float64Array) -> Float64Array:
    """Half the width of a 95 % interval of Student's t with an error of 1."""
    # Here for the same reason.
    from scipy.special import stdtrit

    quantile: Float64Array = stdtrit(degrees, 0.975)
    return quantile


def adjusted(p_values: Float64Array) -> Float64Array:
    """p-values f8[n] for n tests at once, after Holm: that of any error among them."""
    order = np.argsort(p_values)
    scaled = p_values[order] * np.arange(len(p_values), 0, -1)
    result = np.empty_like(p_values)
    result[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return result
