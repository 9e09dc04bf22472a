"""Which differences between two sides of several runs are more than runs of one side differ by. Pure.

Nothing is assumed of what a machine does from run to run: it is measured. Each run is one value, however
many calls it has. Where the programs are equal the runs of both sides come from one law, so the spread around
the mean of each side is pooled (Student's t). With three runs a side it is known in four degrees of freedom;
functions that spread alike lend each other theirs, as many as their likeness bears out.

Sources: Student 1908; moderated variances, and how alike they are, after Smyth 2004 (limma); Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import BoolArray, Float64Array
from chimbuko.provenance.compare.effects import (
    LEAST_CALLS,
    LEAST_FUNCTIONS,
    VOTE_ERROR,
    Shifts,
    adjusted,
    half_width_95,
    two_sided_p,
    weighted_median,
)
from chimbuko.provenance.compare.levels import Level

QUESTIONS = 7
"""Families of tests of a comparison: usual runtimes, means, call paths, time in all calls, anomalies of
functions and of ranks, costs of findings."""
LEAST_P = 0.05 / QUESTIONS
"""Chance that one of them names anything where nothing has changed: any of them does in 5 % at most."""

LENDERS = 5
"""Fewer functions do not say how alike their spreads are."""
MOST_LENT = 4.0
"""Degrees of freedom from other functions, and fewer than the function's own: few look alike by chance."""
DEGREES_PER_RUN = 2.0
"""Of the side that has fewer. A single run is judged by how far out it lies, and times are skewed: rare long
calls put one run of equal ones far out more often than Student's t expects. On two sides that are alike the
skew drops out."""
LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class Differences:
    """Of the means of both sides, the second less the first; f8[n] each."""

    difference: Float64Array
    half_width: Float64Array
    """Of an interval that holds the true one with a confidence of 95 %."""
    p_value: Float64Array
    """Of each one by itself."""


def differences(
    values: Float64Array, is_after: BoolArray, sampling: Float64Array, may_lend: bool = False
) -> Differences:
    """Of n quantities.

    Parameters
    ----------
    values
        f8[runs, n]: of each run one value, as normal as may be.
    is_after
        b1[runs]: the run is of the second side. There are three runs or more, and one or more on each side.
    sampling
        f8[runs, n]: variance that values have by chance alone; runs do not spread less.
    may_lend
        The quantities are alike, so that what is known of some says something of others.
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
    """How many degrees of freedom each quantity gets from the others, and the variance that is usual.

    Logarithms of variances that were estimated in so many degrees spread by the trigamma function of half of
    them. What they spread more is how different they are.
    """
    if len(variance) < LENDERS or degrees < 2:
        return 0.0, 0.0
    # Here because it takes 0.2 s and 20 MB, which a server that compares nothing need not pay.
    from scipy.special import digamma, polygamma

    most = min(MOST_LENT, degrees - 1)
    logs = np.log(variance) - digamma(degrees / 2) + math.log(degrees / 2)
    really = float(np.var(logs, ddof=1) - polygamma(1, degrees / 2))
    # The trigamma function of x is some 1/x + 1/(2 x²), here solved for x.
    lent = most if really <= 0 else min(most, (1 + math.sqrt(1 + 2 * really)) / really)
    return lent, math.exp(float(logs.mean()) + digamma(lent / 2) - math.log(lent / 2))


def machine_of(levels: Float64Array, sampling: Float64Array) -> Float64Array:
    """By how much longer everything takes in each run than in the middle of all, as logarithms; f8[runs].

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
    """f8[runs]: as of ``machine_of``; 0 where it is not separated."""


def shifts_between_runs(
    levels: Sequence[Sequence[Level | None]], is_after: BoolArray, is_net: bool
) -> RunShifts:
    """Of functions that all runs have; levels by function, then by run in the order of ``is_after``.

    ``is_net``: what all functions of a run have in common is taken off.
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
    found = differences(ln_us - machine[:, None], is_after, sampling, may_lend=True)
    places = list(judged)
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
    return [bool(p_value < LEAST_P) for p_value in p_values]


def costs_differ(costs_us: Sequence[Sequence[float]], is_after: BoolArray) -> list[bool]:
    """Whether costs differ by more than from run to run; by quantity and run."""
    values = np.array(costs_us, dtype=float).T
    p_values = adjusted(differences(values, is_after, np.zeros_like(values)).p_value)
    return [bool(p_value < LEAST_P) for p_value in p_values]
