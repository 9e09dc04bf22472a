"""How much longer calls take in the second of two runs: how sure that is, and what it costs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from chimbuko.core.arrays import BoolArray, Float64Array
from chimbuko.provenance.compare.effects import Shifts, shifts_between
from chimbuko.provenance.compare.levels import Level
from chimbuko.provenance.compare.replicates import LEAST_P as LEAST_P_OF_RUNS
from chimbuko.provenance.compare.replicates import shifts_between_runs

LEAST_P = 0.01
"""Chance that a comparison of two runs of the same names any function."""

Verdict = Literal["slower", "faster", "same", "unclear"]


class Change(msgspec.Struct, frozen=True):
    """Of one function, in one of its runtimes."""

    effect: float | None
    """Share by which the runtime has grown, without what is common to all functions; None where there are
    too few calls to tell."""
    low: float | None
    high: float | None
    """The true effect lies between with a confidence of 95 %."""
    p_value: float
    """Chance of an effect so far from 0 where nothing has changed, with so many functions."""
    lost_us: float
    """Time lost in all: the effect on the runtime before, times the calls of the second run."""
    verdict: Verdict
    """``same``: certainly less than the least effect; ``unclear``: neither that, nor certainly there."""


@dataclass(frozen=True)
class Judged:
    """All functions."""

    common: float
    """What they have in common, as a logarithm."""
    machine: Float64Array
    """f8[runs]: the same of each run where there are several on a side; else 0."""
    changes: list[Change]


@dataclass(frozen=True)
class Judge:
    """Says what has changed from the runs of one side to those of the other."""

    is_after: BoolArray
    """b1[runs]: the run is of the second side."""
    least_effect: float
    """Changes by a smaller share are not named."""
    is_net: bool
    """What all functions have in common is taken off."""

    @property
    def has_several(self) -> bool:
        """Whether a side has several runs, so that it is seen how far runs of the same lie apart."""
        return len(self.is_after) > 2

    def judge(self, levels: Sequence[Sequence[Level | None]], calls: Sequence[int]) -> Judged:
        """What has changed in each function.

        Parameters
        ----------
        levels
            Of functions that all runs have, by function, then by run in the order of ``is_after``.
        calls
            Of each in the second side.
        """
        least_p, machine = LEAST_P, np.zeros(len(self.is_after))
        if self.has_several:
            found = shifts_between_runs(levels, self.is_after, self.is_net)
            shifts, machine, least_p = found.shifts, found.machine, LEAST_P_OF_RUNS
        else:
            before, after = [one[0] for one in levels], [one[1] for one in levels]
            shifts = shifts_between(before, after, self.is_net)
        changes = [
            _change(shifts, at, self._usual_us(of_runs) * calls[at], self.least_effect, least_p)
            for at, of_runs in enumerate(levels)
        ]
        return Judged(shifts.common, machine, changes)

    def _usual_us(self, levels: Sequence[Level | None]) -> float:
        """In the runs before, in their middle."""
        before = [
            one.ln_us for one, is_after in zip(levels, self.is_after, strict=True) if one and not is_after
        ]
        return math.exp(sum(before) / len(before)) if before else 0.0


def _change(shifts: Shifts, at: int, before_us: float, least_effect: float, least_p: float) -> Change:
    net, half = float(shifts.net[at]), float(shifts.half_width[at])
    if math.isnan(net):
        return Change(None, None, None, 1.0, 0.0, "unclear")
    p_value, least = float(shifts.p_value[at]), math.log1p(least_effect)
    verdict: Verdict = "unclear"
    if p_value < least_p and abs(net) >= least:
        verdict = "slower" if net > 0 else "faster"
    elif abs(net) + half < least:
        verdict = "same"
    low, high = math.expm1(net - half), math.expm1(net + half)
    return Change(math.expm1(net), low, high, p_value, before_us * math.expm1(net), verdict)
