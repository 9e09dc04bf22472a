"""Which differences between the levels of two runs are more than chance. Pure.

Of a million calls the smallest difference is "significant" if calls are drawn by chance; they are not. What
the machine does meanwhile moves whole runs. So the error of a difference is made of how far each level
wandered *within* its run (``chimbuko.provenance.levels``), of what the two runs differ by as a whole, which
is taken off, and of how far functions differ from that beyond their own errors.

Sources: moderated variances after Smyth 2004 (limma); the spread between runs as in a meta-analysis with
random effects, by medians; several tests at once after Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.moments import Float64Array
from chimbuko.provenance.levels import LEAST_FUNCTIONS, VOTE_ERROR, Level, weighted_median

LEAST_CALLS = 20
"""In both runs, for a function to be judged."""
MOST_ERROR = 0.3
"""Functions with a larger one say nothing of what is common."""
USUAL_WANDER = 0.01
"""Standard deviation of a level between the windows of a run on a machine that does nothing else."""
USUAL_WANDER_DEGREES = 4.0
"""Testimony that is worth."""
LEAST_DEGREES = 1.0
"""For a function to say itself how far it wanders."""
USUAL_SPREAD = 0.015
"""Standard deviation between runs of the same, of one function against the others."""
ALONE_SPREAD = 0.05
"""... where there are not enough functions to see what all have in common."""
USUAL_SPREAD_FUNCTIONS = 4.0
"""How many functions' testimony that is worth."""

MEDIAN_OF_NORMAL = 0.6745
"""Half of normal deviates are smaller than so many standard deviations."""
VARIANCE_OF_MEDIAN = 1.57
"""... of n normal deviates, times n, in units of that of their mean."""
VARIANCE_OF_SPREAD = 2.7
"""... of a spread by their median, in units of that of a standard deviation."""
_TWO_SIDED_95 = 1.96


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
    raw = np.array([b.ln_us - a.ln_us for a, b in judged.values()])
    own = _errors([a for a, _ in judged.values()], [b for _, b in judged.values()])
    common, between = _common(raw, own.variance, is_net)
    all_errors = own.plus(between)
    error = np.sqrt(all_errors.variance)
    places = list(judged)
    net[places] = raw - common
    half_width[places] = error * student_of_normal(_TWO_SIDED_95, all_errors.degrees)
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
        return _Errors(
            variance,
            variance**2 / (self.variance**2 / self.degrees + other.variance**2 / other.degrees),
        )


def _errors(before: Sequence[Level], after: Sequence[Level]) -> _Errors:
    """What is known from each function alone, by chance and by how far it wandered."""
    sampling = np.array([a.sampling + b.sampling for a, b in zip(before, after, strict=True)])
    by_chance = _Errors(sampling, np.full(len(sampling), math.inf))
    return by_chance.plus(_moderated(before)).plus(_moderated(after))


def _moderated(levels: Sequence[Level]) -> _Errors:
    """How far levels wandered; one that wandered little, by the few windows that there are, is not trusted.

    It is the variance between windows, not divided by their number: windows that follow each other are alike.
    What is usual is not taken from the other functions, for short ones wander ten times as far as long ones;
    only of those with hardly a window to compare is it.
    """
    wander = np.array([level.wander for level in levels])
    degrees = np.array([level.degrees for level in levels])
    is_known = degrees >= LEAST_DEGREES
    of_others = float(np.median(wander[is_known])) if is_known.any() else 0.0
    usual = np.where(is_known, USUAL_WANDER**2, max(USUAL_WANDER**2, of_others))
    pooled = degrees + USUAL_WANDER_DEGREES
    return _Errors((degrees * wander + USUAL_WANDER_DEGREES * usual) / pooled, pooled)


def _common(raw: Float64Array, own: Float64Array, is_net: bool) -> tuple[float, _Errors]:
    """What functions have in common, and how far each may lie from that without having changed."""
    tells = own < MOST_ERROR**2
    witnesses = int(tells.sum())
    if not is_net or witnesses < LEAST_FUNCTIONS:
        alone = np.full(len(raw), ALONE_SPREAD**2)
        return 0.0, _Errors(alone, np.full(len(raw), USUAL_SPREAD_FUNCTIONS))
    weights = np.where(tells, 1.0 / (own + VOTE_ERROR**2), 0.0)
    common = weighted_median(raw, weights)
    spread = _spread_between(raw - common, own, weights)
    between = (witnesses * spread**2 + USUAL_SPREAD_FUNCTIONS * USUAL_SPREAD**2) / (
        witnesses + USUAL_SPREAD_FUNCTIONS
    )
    of_common = VARIANCE_OF_MEDIAN * (between + float(np.median(own))) / witnesses
    degrees = witnesses / VARIANCE_OF_SPREAD + USUAL_SPREAD_FUNCTIONS
    return common, _Errors(np.full(len(raw), between + of_common), np.full(len(raw), degrees))


def _spread_between(residuals: Float64Array, own: Float64Array, weights: Float64Array) -> float:
    """Standard deviation that functions must have beyond their own errors for the middle one of their
    residuals to be as large as it is; 0 where their own errors are enough."""
    low, high = 0.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2
        scores = np.abs(residuals) / np.sqrt(own + middle * middle)
        if weighted_median(scores, weights) > MEDIAN_OF_NORMAL:
            low = middle
        else:
            high = middle
    return low


def two_sided_p(t: Float64Array, degrees: Float64Array) -> Float64Array:
    """That Student's t is as far from 0; Wallace's approximation (1959), to 0.02 of the normal deviate."""
    z = (8 * degrees + 1) / (8 * degrees + 3) * np.sqrt(degrees * np.log1p(t * t / degrees))
    return np.array([math.erfc(value / math.sqrt(2.0)) for value in z.tolist()])


def student_of_normal(z: float, degrees: Float64Array) -> Float64Array:
    """The quantile of Student's t that a normal deviate stands for: the same, backwards."""
    stretched = z * (8 * degrees + 3) / (8 * degrees + 1)
    quantile: Float64Array = np.sqrt(degrees * np.expm1(stretched * stretched / degrees))
    return quantile


def adjusted(p_values: Float64Array) -> Float64Array:
    """p-values f8[n] for n tests at once, after Holm: that of any error among them."""
    order = np.argsort(p_values)
    scaled = p_values[order] * np.arange(len(p_values), 0, -1)
    result = np.empty_like(p_values)
    result[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return result
