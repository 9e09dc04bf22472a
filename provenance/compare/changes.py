"""How much longer calls take in the second of two runs: how sure that is, and what it costs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from chimbuko.provenance.compare.effects import Shifts, shifts_between
from chimbuko.provenance.compare.levels import Level

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


def changes_between(
    before: Sequence[Level | None],
    after: Sequence[Level | None],
    calls: Sequence[int],
    least_effect: float,
    is_net: bool,
) -> tuple[float, list[Change]]:
    """What all functions have in common, as a logarithm, and the change of each.

    Parameters
    ----------
    before, after
        Of functions that are in both runs, in the same order.
    calls
        Of each in the second run.
    least_effect
        Changes by a smaller share are not named.
    is_net
        What all have in common is taken off.
    """
    shifts = shifts_between(before, after, is_net)
    changes = [
        _change(shifts, at, 0.0 if level is None else math.exp(level.ln_us) * calls[at], least_effect)
        for at, level in enumerate(before)
    ]
    return shifts.common, changes


def _change(shifts: Shifts, at: int, before_us: float, least_effect: float) -> Change:
    net, half = float(shifts.net[at]), float(shifts.half_width[at])
    if math.isnan(net):
        return Change(None, None, None, 1.0, 0.0, "unclear")
    p_value, least = float(shifts.p_value[at]), math.log1p(least_effect)
    verdict: Verdict = "unclear"
    if p_value < LEAST_P and abs(net) >= least:
        verdict = "slower" if net > 0 else "faster"
    elif abs(net) + half < least:
        verdict = "same"
    low, high = math.expm1(net - half), math.expm1(net + half)
    return Change(math.expm1(net), low, high, p_value, before_us * math.expm1(net), verdict)
