"""Time in all calls of two runs, and whether it differs by more than what is known of it allows. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from chimbuko.core.arrays import BoolArray, Float64Array
from chimbuko.provenance.compare.effects import ALONE_SPREAD, USUAL_SPREAD, half_width_95
from chimbuko.provenance.compare.levels import Level
from chimbuko.provenance.compare.replicates import LEAST_P, differences
from chimbuko.provenance.compare.runprofile import FunctionProfile

FEW_DEGREES = 4.0
"""Of freedom, of a spread that is assumed and not measured."""


class CallTime(msgspec.Struct, frozen=True):
    """Exclusive time in the calls of functions that both runs have, on all ranks."""

    before_us: float
    after_us: float
    by_number_us: float
    """Of the difference, what more or fewer calls would have taken, each as long as before."""
    by_length_us: float
    """The rest, without what is common to all functions: because calls take longer, or less."""
    low_us: float
    high_us: float
    """The true part by length lies between with a confidence of 95 %."""
    differs: bool
    """By length, by more than chance explains."""


def call_time(both: Sequence[tuple[FunctionProfile, FunctionProfile]], common: float) -> CallTime:
    """Of functions that are in both runs.

    Parameters
    ----------
    common
        By how much all means are longer, as a logarithm, since the machine is slower.
    """
    before_us = sum(a.calls * a.mean_us for a, _ in both)
    after_us = sum(b.calls * b.mean_us for _, b in both)
    expected_us = sum(b.calls * a.mean_us for a, b in both)
    by_length_us = after_us - expected_us * math.exp(common)
    # Functions err alike where the machine is the cause, and each for itself in what chance brings.
    own = sum((b.calls * a.mean_us * _spread(a.level_of_all, b.level_of_all)) ** 2 for a, b in both)
    error_us = math.sqrt(own + (USUAL_SPREAD * expected_us) ** 2)
    half_us = error_us * float(half_width_95(np.array(FEW_DEGREES)))
    return CallTime(
        before_us,
        after_us,
        expected_us - before_us,
        by_length_us,
        by_length_us - half_us,
        by_length_us + half_us,
        abs(by_length_us) > half_us,
    )


def call_time_of_runs(
    both: Sequence[tuple[FunctionProfile, FunctionProfile]], is_after: BoolArray, machine: Float64Array
) -> CallTime:
    """Of functions that all of several runs have; times are means per run.

    Parameters
    ----------
    is_after
        b1[runs]: the run is of the second side.
    machine
        f8[runs]: by how much all means are longer in each run, as logarithms.
    """
    before_us = sum(a.calls * a.mean_us for a, _ in both)
    after_us = sum(b.calls * b.mean_us for _, b in both)
    expected_us = sum(b.calls * a.mean_us for a, b in both)
    if not before_us or not after_us:
        return CallTime(before_us, after_us, expected_us - before_us, 0.0, 0.0, 0.0, False)
    # What each run would take for the same number of calls.
    of_runs = sum(b.calls * np.array([run.mean_us for run in (*a.each(), *b.each())]) for a, b in both)
    values = (np.log(of_runs) - machine)[:, None]
    found = differences(values, is_after, np.zeros_like(values))
    middle, half = float(found.difference[0]), float(found.half_width[0])
    usual_us = expected_us * math.exp(float(machine[is_after].mean() - machine[~is_after].mean()))
    low_us, by_length_us, high_us = (
        usual_us * math.expm1(change) for change in (middle - half, middle, middle + half)
    )
    return CallTime(
        before_us,
        after_us,
        expected_us - before_us,
        by_length_us,
        low_us,
        high_us,
        bool(found.p_value[0] < LEAST_P),
    )


def _spread(before: Level | None, after: Level | None) -> float:
    """Standard deviation of the logarithm of how much longer calls take, where nothing has changed."""
    if before is None or after is None:
        return ALONE_SPREAD
    return math.sqrt(before.sampling + after.sampling + ALONE_SPREAD**2)
