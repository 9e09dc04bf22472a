"""Changes of runtime from run to run: how sure they are, and what they cost, by function and in all. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from chimbuko.core.arrays import BoolArray, Float64Array
from chimbuko.provenance.compare.effects import (
    LEAST_P_OF_RUNS,
    Assumed,
    Shifts,
    differences,
    half_width_95,
    shifts_between,
    shifts_between_runs,
)
from chimbuko.provenance.compare.levels import Level
from chimbuko.provenance.compare.runprofile import FunctionProfile

LEAST_P = 0.01
"""Chance that a comparison of two runs of an unchanged program names any function."""

Verdict = Literal["slower", "faster", "same", "unclear"]


class Change(msgspec.Struct, frozen=True):
    """Change of one of the runtimes of a function."""

    effect: float | None
    """Share by which the runtime has grown, without what is common to all functions; None if there are
    too few calls to tell."""
    low: float | None
    high: float | None
    """Bounds of the true effect with a confidence of 95 %."""
    raw: float | None
    """Share by which the runtime has grown, with what is common to all functions."""
    p_value: float
    """Chance of an effect so far from 0 where nothing has changed, with so many functions."""
    lost_us: float
    """Time lost by all calls: the effect in µs per call, times the calls of the second run."""
    verdict: Verdict
    """Verdict: ``same`` if the effect is certainly below the least one, ``unclear`` if it is neither that nor
    certain."""


@dataclass(frozen=True)
class Judged:
    """Changes of all functions."""

    common: float
    """Change that all functions have in common, as a logarithm."""
    machine: Float64Array
    """Change that all functions of each run have in common, f8[runs]; 0 if each side has one run."""
    changes: list[Change]


@dataclass(frozen=True)
class Judge:
    """Judges what has changed from the runs of one side to those of the other."""

    is_after: BoolArray
    """Whether each run is of the second side, b1[runs]."""
    least_effect: float
    """Smallest share by which a runtime must change to be named."""
    is_net: bool
    """Whether the change that all functions have in common is subtracted."""
    assumed: Assumed
    """Spread between equal runs, where it is not measured."""

    @property
    def has_several(self) -> bool:
        """Whether a side has several runs, so that the spread between equal runs is measured."""
        return len(self.is_after) > 2

    def judge(
        self,
        levels: Sequence[Sequence[Level | None]],
        calls: Sequence[int],
        ln_calls: Float64Array | None = None,
    ) -> Judged:
        """Return the change of each function.

        Parameters
        ----------
        levels
            Levels of the functions that all runs have, by function, then by run in the order of ``is_after``.
        calls
            Calls of each function in the second side.
        ln_calls
            Logarithm of the number of calls, f8[functions, runs]: the changes are those of the time in all
            calls then, and not of single ones.
        """
        least_p, machine = LEAST_P, np.zeros(len(self.is_after))
        if self.has_several:
            found = shifts_between_runs(levels, self.is_after, self.is_net, ln_calls)
            shifts, machine, least_p = found.shifts, found.machine, LEAST_P_OF_RUNS
        else:
            before, after = [one[0] for one in levels], [one[1] for one in levels]
            more = None if ln_calls is None else ln_calls[:, 1] - ln_calls[:, 0]
            shifts = shifts_between(before, after, self.is_net, more, self.assumed)
        changes = [
            _change(shifts, at, self._usual_us(of_runs) * calls[at], self.least_effect, least_p)
            for at, of_runs in enumerate(levels)
        ]
        return Judged(shifts.common, machine, changes)

    def _usual_us(self, levels: Sequence[Level | None]) -> float:
        """Usual runtime before: the median over the runs of the first side."""
        before = [
            one.ln_us for one, is_after in zip(levels, self.is_after, strict=True) if one and not is_after
        ]
        return math.exp(sum(before) / len(before)) if before else 0.0


def _change(shifts: Shifts, at: int, before_us: float, least_effect: float, least_p: float) -> Change:
    net, half = float(shifts.net[at]), float(shifts.half_width[at])
    if math.isnan(net):
        return Change(None, None, None, None, 1.0, 0.0, "unclear")
    p_value, least = float(shifts.p_value[at]), math.log1p(least_effect)
    verdict: Verdict = "unclear"
    if p_value < least_p and abs(net) >= least:
        verdict = "slower" if net > 0 else "faster"
    elif abs(net) + half < least:
        verdict = "same"
    effect, low, high = (math.expm1(value) for value in (net, net - half, net + half))
    raw = math.expm1(net + shifts.common)
    return Change(effect, low, high, raw, p_value, before_us * effect, verdict)


FEW_DEGREES = 4.0
"""Degrees of freedom of a spread that is assumed and not measured."""


class CallTime(msgspec.Struct, frozen=True):
    """Exclusive time in the calls of functions that both runs have, on all ranks."""

    before_us: float
    after_us: float
    by_number_us: float
    """Part of the difference that is due to the number of calls, each taken as long as before."""
    by_machine_us: float
    """Part by which all calls alike take longer, as a rule because of the machine; the three parts add up to
    the difference."""
    by_length_us: float
    """Part that is due to the length of calls, without what is common to all functions."""
    low_us: float
    high_us: float
    """Bounds of the true part by length with a confidence of 95 %."""
    differs: bool
    """Whether the part by length is more than chance explains."""


def call_time(
    both: Sequence[tuple[FunctionProfile, FunctionProfile]], common: float, assumed: Assumed
) -> CallTime:
    """Return the time in the functions that both runs have.

    Parameters
    ----------
    common
        Logarithm of the factor by which all means are longer because the machine is slower.
    assumed
        Spread between equal runs.
    """
    before_us = sum(a.calls * a.mean_us for a, _ in both)
    after_us = sum(b.calls * b.mean_us for _, b in both)
    expected_us = sum(b.calls * a.mean_us for a, b in both)
    by_machine_us = expected_us * math.expm1(common)
    by_length_us = after_us - expected_us - by_machine_us
    # Functions err alike where the machine is the cause, and each for itself in what chance brings.
    own = sum((b.calls * a.mean_us * _spread(a.level_of_all, b.level_of_all, assumed)) ** 2 for a, b in both)
    error_us = math.sqrt(own + (assumed.of_function * expected_us) ** 2)
    half_us = error_us * float(half_width_95(np.array(FEW_DEGREES)))
    return CallTime(
        before_us,
        after_us,
        expected_us - before_us,
        by_machine_us,
        by_length_us,
        by_length_us - half_us,
        by_length_us + half_us,
        abs(by_length_us) > half_us,
    )


def call_time_of_runs(
    both: Sequence[tuple[FunctionProfile, FunctionProfile]], is_after: BoolArray, machine: Float64Array
) -> CallTime:
    """Return the time in the functions that all of several runs have; times are means per run.

    Parameters
    ----------
    is_after
        b1[runs]: the run is of the second side.
    machine
        f8[runs]: logarithm of the factor by which all means are longer in each run.
    """
    before_us = sum(a.calls * a.mean_us for a, _ in both)
    after_us = sum(b.calls * b.mean_us for _, b in both)
    expected_us = sum(b.calls * a.mean_us for a, b in both)
    if not before_us or not after_us:
        differs = after_us != before_us
        return CallTime(before_us, after_us, -before_us, 0.0, after_us, after_us, after_us, differs)
    # The time that each run would take for the same number of calls.
    of_runs = sum(b.calls * np.array([run.mean_us for run in (*a.each(), *b.each())]) for a, b in both)
    values = (np.log(of_runs) - machine)[:, None]
    found = differences(values, is_after, np.zeros_like(values))
    middle, half = float(found.difference[0]), float(found.half_width[0])
    usual_us = expected_us * math.exp(float(machine[is_after].mean() - machine[~is_after].mean()))
    by_length_us = after_us - usual_us
    # Means per run are not those of logarithms, which the interval is of.
    apart_us = by_length_us - usual_us * math.expm1(middle)
    return CallTime(
        before_us,
        after_us,
        expected_us - before_us,
        usual_us - expected_us,
        by_length_us,
        usual_us * math.expm1(middle - half) + apart_us,
        usual_us * math.expm1(middle + half) + apart_us,
        bool(found.p_value[0] < LEAST_P_OF_RUNS),
    )


def _spread(before: Level | None, after: Level | None, assumed: Assumed) -> float:
    """Standard deviation of the logarithm of the ratio of runtimes where nothing has changed."""
    if before is None or after is None:
        return assumed.alone
    return math.sqrt(before.sampling + after.sampling + assumed.alone**2)
