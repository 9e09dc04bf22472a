"""Differences between the levels of runs that are more than chance. Pure.

Two runs: of a million calls the smallest difference would be "significant" if calls were drawn by chance,
which they are not. What the machine does meanwhile moves whole runs. So the error of a difference is made of

- how far the difference wanders in the course of the runs: a program's phases are in both and drop out;
- by how much everything takes longer, which is separated, as the middle function does;
- how far functions lie from that beyond their own errors, those aside that have clearly changed.

Several runs on each side: nothing is assumed of what a machine does from run to run, it is measured. Each run
is one value, however many calls it has. Where the programs are equal the runs of both sides come from one
law, so the spread around the mean of each side is pooled (Student's t). With three runs on a side it is known
in four degrees of freedom; functions that spread alike lend each other theirs, as far as they are alike.

Sources: Student 1908; moderated variances, and how alike they are, after Smyth 2004 (limma); the spread
between runs as in a meta-analysis with random effects, by medians; several tests at once after Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import BoolArray, Float64Array
from chimbuko.core.statistics.student import digamma, trigamma, two_sided_p, two_sided_t
from chimbuko.provenance.compare.levels import PARTS, Level

LEAST_CALLS = 20
"""Least number of calls in both runs for a function to be judged."""
LEAST_FUNCTIONS = 3
"""Least number of functions for what is common to all to be separated from what one does."""
MOST_ERROR = 0.3
"""Largest error of a function that counts for what is common to all."""
VOTE_ERROR = 0.05
"""Error below which functions count alike for what is common to all; those with a larger one count less."""
USUAL_WANDER = 0.015
"""Standard deviation of the difference of two runs in their course, on a machine that does nothing else."""
USUAL_WANDER_DEGREES = 4.0
"""Weight of ``USUAL_WANDER``, in degrees of freedom."""
LEAST_DEGREES = 1.0
"""Least degrees of freedom for a function's own wandering to be trusted."""
USUAL_SPREAD = 0.015
"""Standard deviation between runs of an unchanged program, of one function against the others."""
ALONE_SPREAD = 0.05
"""Standard deviation of one function where too few functions show what all have in common."""
BUSY_SPREAD = 0.17
"""Spread that is added where threads waited for a core all the time, and by the square of the share of it:
who takes the cores takes them from one function in one run, and from another one in the next. With it equal
runs of a machine that takes 58 % stay silent (23 of 132 pairs did not), while of those of one that takes 21 %
as many changes of 10 % are found as without it."""
USUAL_SPREAD_FUNCTIONS = 4.0
"""Weight of ``USUAL_SPREAD``, in functions."""
CHANGED = 4.0
"""Distance from the common shift, in standard deviations, from which a function counts as changed."""
ROUNDS = 3
MEDIAN_OF_NORMAL = 0.6745
"""Standard deviations than which half of normal deviates are smaller."""
VARIANCE_OF_MEDIAN = 1.57
"""Variance of the median of n normal deviates, times n, in units of that of their mean."""
VARIANCE_OF_SPREAD = 2.7
"""Variance of a spread that is estimated by a median, in units of that of a standard deviation."""


@dataclass(frozen=True)
class Assumed:
    """Standard deviations that are assumed between runs of an unchanged program, where each side has one."""

    of_function: float = USUAL_SPREAD
    """Spread of one function against the others; ``alone``, where too few show what all have in common."""
    alone: float = ALONE_SPREAD


def assumed_where(waited: float) -> Assumed:
    """Return what is assumed of runs whose threads waited so much of their time for a core."""
    busy = BUSY_SPREAD * waited**2
    return Assumed(math.hypot(USUAL_SPREAD, busy), math.hypot(ALONE_SPREAD, busy))


AS_USUAL = assumed_where(0.0)


@dataclass(frozen=True)
class Shifts:
    """Differences of levels, as natural logarithms, the second run less the first; f8[n] each."""

    common: float
    """Difference that all functions have in common; subtracted already from ``net``."""
    net: Float64Array
    """Difference of each function without the common one; NaN if there are too few calls."""
    half_width: Float64Array
    """Half the width of an interval that holds the true difference with a confidence of 95 %."""
    p_value: Float64Array
    """Chance of a difference so large among all of these where nothing has changed."""


def shifts_between(
    before: Sequence[Level | None],
    after: Sequence[Level | None],
    is_net: bool,
    more: Float64Array | None = None,
    assumed: Assumed = AS_USUAL,
) -> Shifts:
    """Return the shifts of the functions that both runs have, given in the same order.

    ``is_net``: what all have in common is subtracted, as it is the machine's more often than the program's.
    ``more``: what is added to each shift afterwards, f8[n].
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
    common, between = _common(raw, own.variance, is_net, assumed)
    all_errors = own.plus(between)
    error = np.sqrt(all_errors.variance)
    places = list(judged)
    net[places] = raw - common + (0.0 if more is None else more[places])
    half_width[places] = error * half_width_95(all_errors.degrees)
    p_value[places] = adjusted(two_sided_p(net[places] / error, all_errors.degrees))
    return Shifts(common, net, half_width, p_value)


@dataclass(frozen=True)
class _Errors:
    """Variances, and their degrees of freedom; f8[n]."""

    variance: Float64Array
    degrees: Float64Array

    def plus(self, other: _Errors) -> _Errors:
        """Return the errors of both together (Welch, Satterthwaite)."""
        variance = self.variance + other.variance
        inverse = self.variance**2 / self.degrees + other.variance**2 / other.degrees
        return _Errors(variance, variance**2 / inverse)


def _own_errors(pairs: Sequence[tuple[Level, Level]]) -> _Errors:
    """Return what each function says of its own error: by chance, and by how far the difference wanders.

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
    """Median over functions in each part, f8[PARTS]."""
    weights = 1.0 / (deviations.var(axis=1) + VOTE_ERROR**2)
    return np.array([weighted_median(part, weights) for part in deviations.T])


def _common(raw: Float64Array, own: Float64Array, is_net: bool, assumed: Assumed) -> tuple[float, _Errors]:
    """Return what functions have in common, and how far each may lie from that without having changed."""
    reports = own < MOST_ERROR**2
    witnesses = int(reports.sum())
    if not is_net or witnesses < LEAST_FUNCTIONS:
        # Whoever wants nothing subtracted says that the machine is the same.
        usual = assumed.alone if is_net else assumed.of_function
        return 0.0, _Errors(np.full(len(raw), usual**2), np.full(len(raw), USUAL_SPREAD_FUNCTIONS))
    weights = np.where(reports, 1.0 / (own + VOTE_ERROR**2), 0.0)
    is_same = np.ones(len(raw), np.bool_)
    for _ in range(ROUNDS):
        common = weighted_median(raw, weights * is_same)
        spread = _spread_between(raw - common, own, weights * is_same)
        between = (witnesses * spread**2 + USUAL_SPREAD_FUNCTIONS * assumed.of_function**2) / (
            witnesses + USUAL_SPREAD_FUNCTIONS
        )
        is_same = np.abs(raw - common) < CHANGED * np.sqrt(own + between)
    of_common = VARIANCE_OF_MEDIAN * (between + float(np.median(own))) / witnesses
    degrees = witnesses / VARIANCE_OF_SPREAD + USUAL_SPREAD_FUNCTIONS
    return common, _Errors(np.full(len(raw), between + of_common), np.full(len(raw), degrees))


def _spread_between(residuals: Float64Array, own: Float64Array, weights: Float64Array) -> float:
    """Standard deviation that functions must have beyond their own errors for the middle one of their
    residuals to be as large as it is; 0 if their own errors are enough.
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
    """Return the value with half of the weight on either side; between two where they meet in the middle."""
    order = np.argsort(values)
    ordered, upto = values[order], np.cumsum(weights[order])
    half = upto[-1] / 2
    at = int(np.searchsorted(upto, half))
    if math.isclose(upto[at], half) and at + 1 < len(ordered):
        return float(ordered[at] + ordered[at + 1]) / 2
    return float(ordered[at])


def half_width_95(degrees: Float64Array) -> Float64Array:
    """Half the width of a 95 % interval of Student's t with an error of 1."""
    return two_sided_t(0.05, degrees)


def adjusted(p_values: Float64Array) -> Float64Array:
    """Return p-values for n tests at once after Holm, f8[n]: the chance of any error among them."""
    order = np.argsort(p_values)
    scaled = p_values[order] * np.arange(len(p_values), 0, -1)
    result = np.empty_like(p_values)
    result[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return result


QUESTIONS = 11
"""Number of families of tests in a comparison: usual runtimes, means, call paths, time in all calls, time of
the run, of each function and of functions with few calls, numbers of calls, anomalies of functions and of
ranks, costs of findings."""
LEAST_P_OF_RUNS = 0.05 / QUESTIONS
"""Chance that one family of tests names anything where nothing has changed: any of them does in 5 % at
most."""

LENDERS = 5
"""Least number of functions that say how alike their spreads are."""
MOST_LENT = 4.0
"""Most degrees of freedom from other functions, and never as many as the function's own: a few look alike by
chance."""
DEGREES_PER_RUN = 2.0
"""Degrees of freedom for each run of the side that has fewer. A single run is judged by how far out it lies,
and times are skewed: rare long calls put one run of equal ones far out more often than Student's t expects.
On two sides that are alike the skew drops out."""
LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class Differences:
    """Differences of the means of both sides, the second less the first; f8[n] each."""

    difference: Float64Array
    half_width: Float64Array
    """Half the width of an interval that holds the true difference with a confidence of 95 %."""
    p_value: Float64Array
    """Chance of each difference by itself."""


def differences(
    values: Float64Array, is_after: BoolArray, sampling: Float64Array, may_lend: bool = False
) -> Differences:
    """Return the differences of n quantities.

    Parameters
    ----------
    values
        f8[runs, n]: one value of each run, as normally distributed as may be.
    is_after
        b1[runs]: the run is of the second side. There are three runs or more, and one or more on each side.
    sampling
        f8[runs, n]: variance that values have by chance alone, below which runs cannot spread.
    may_lend
        Whether the quantities are alike, so that the spread of some says something of that of others.
    """
    before, after = values[~is_after], values[is_after]
    freedom = len(values) - 2.0
    squares = ((before - before.mean(axis=0)) ** 2).sum(axis=0)
    squares += ((after - after.mean(axis=0)) ** 2).sum(axis=0)
    variance = np.maximum(squares / freedom, np.maximum(sampling.mean(axis=0), LEAST_VARIANCE))
    degrees = min(freedom, DEGREES_PER_RUN * min(len(before), len(after)))
    if may_lend:
        lent, usual = _lent(variance, freedom)
        variance = (freedom * variance + lent * usual) / (freedom + lent)
        degrees += lent
    difference = after.mean(axis=0) - before.mean(axis=0)
    error = np.sqrt(variance * (1 / len(before) + 1 / len(after)))
    p_value = two_sided_p(difference / error, np.full(len(error), degrees))
    return Differences(difference, error * float(half_width_95(np.array(degrees))), p_value)


def _lent(variance: Float64Array, degrees: float) -> tuple[float, float]:
    """Return how many degrees of freedom each quantity gets from the others, and the usual variance.

    Logarithms of variances that were estimated in so many degrees spread by the trigamma function of half of
    them. What they spread more is how different they are.
    """
    if len(variance) < LENDERS or degrees < 2:
        return 0.0, 0.0
    most = min(MOST_LENT, degrees - 1)
    logs = np.log(variance) - digamma(degrees / 2) + math.log(degrees / 2)
    really = float(np.var(logs, ddof=1) - trigamma(degrees / 2))
    # The trigamma function of x is some 1/x + 1/(2 x²), here solved for x.
    lent = most if really <= 0 else min(most, (1 + math.sqrt(1 + 2 * really)) / really)
    return lent, math.exp(float(logs.mean()) + digamma(lent / 2) - math.log(lent / 2))


def machine_of(levels: Float64Array, sampling: Float64Array) -> Float64Array:
    """Return how much longer everything takes in each run than in the median run, as logarithms, f8[runs].

    Parameters
    ----------
    levels, sampling
        f8[runs, n]: logarithms of runtimes of n functions, and their variances by chance.
    """
    if levels.shape[1] < LEAST_FUNCTIONS:
        return np.zeros(len(levels))
    # All runs are treated alike, whichever side they are of: otherwise equal programs would not stay equal.
    deviations = levels - levels.mean(axis=0)
    weights = 1 / (sampling.mean(axis=0) + VOTE_ERROR**2)
    return np.array([weighted_median(run, weights) for run in deviations])


@dataclass(frozen=True)
class RunShifts:
    """Shifts between two sides of several runs."""

    shifts: Shifts
    machine: Float64Array
    """Result of ``machine_of``, f8[runs]; 0 if it is not separated."""


def shifts_between_runs(
    levels: Sequence[Sequence[Level | None]],
    is_after: BoolArray,
    is_net: bool,
    ln_calls: Float64Array | None = None,
) -> RunShifts:
    """Return the shifts of the functions that all runs have.

    Levels by function, then by run as in ``is_after``.

    ``is_net``: what all functions of a run have in common is subtracted. ``ln_calls``: what is added to the
    levels afterwards, f8[functions, runs].
    """
    count = len(levels)
    net, half_width, p_value = np.full(count, np.nan), np.full(count, np.nan), np.ones(count)
    judged = {
        at: known
        for at, of_runs in enumerate(levels)
        if len(known := [one for one in of_runs if one is not None and one.calls >= LEAST_CALLS])
        == len(is_after)
    }
    machine = np.zeros(len(is_after))
    if not judged:
        return RunShifts(Shifts(0.0, net, half_width, p_value), machine)
    ln_us = np.array([[level.ln_us for level in known] for known in judged.values()]).T
    sampling = np.array([[level.sampling for level in known] for known in judged.values()]).T
    if is_net:
        machine = machine_of(ln_us, sampling)
    places = list(judged)
    if ln_calls is not None:
        ln_us = ln_us + ln_calls[places].T
    found = differences(ln_us - machine[:, None], is_after, sampling, may_lend=True)
    net[places], half_width[places] = found.difference, found.half_width
    p_value[places] = adjusted(found.p_value)
    common = float(machine[is_after].mean() - machine[~is_after].mean())
    return RunShifts(Shifts(common, net, half_width, p_value), machine)


def shares_differ(counts: Sequence[Sequence[tuple[int, int]]], is_after: BoolArray) -> list[bool]:
    """Whether shares of calls differ by more than from run to run; ``(found, calls)`` by quantity and run."""
    if not counts:
        return []
    found, calls = np.moveaxis(np.maximum(np.array(counts, dtype=float), 0), 2, 0)
    calls = np.maximum(calls, 1).T
    # The root of a share of n calls varies by 1 / 4n, whatever the share is.
    values = np.sqrt((found.T + 0.375) / calls)
    p_values = adjusted(differences(values, is_after, 1 / (4 * calls)).p_value)
    return [bool(p_value < LEAST_P_OF_RUNS) for p_value in p_values]


def costs_differ(costs_us: Sequence[Sequence[float]], is_after: BoolArray) -> list[bool]:
    """Whether costs differ by more than from run to run; by quantity and run."""
    values = np.array(costs_us, dtype=float).T
    p_values = adjusted(differences(values, is_after, np.zeros_like(values)).p_value)
    return [bool(p_value < LEAST_P_OF_RUNS) for p_value in p_values]
