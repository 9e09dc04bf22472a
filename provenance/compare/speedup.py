"""Speed-ups of a second variant of a program: the effects of a comparison as factors. Pure."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from chimbuko.core.units import format_duration_us, format_significant
from chimbuko.provenance.compare.changes import Change
from chimbuko.provenance.compare.runcomparison import Comparison, RunSide, Shift


class SpeedUp(msgspec.Struct, frozen=True):
    """The time before as a multiple of the time after: 2 is twice as fast, 0.5 half as fast."""

    times: float | None
    """Factor by which it is faster; None if there are too few calls to say."""
    low: float | None
    high: float | None
    """Bounds of the true factor with a confidence of 95 %."""


class FunctionSpeedUp(msgspec.Struct, frozen=True):
    """Speed-up of one function, or of one call path. In each pair the run before comes first."""

    program: str
    name: str
    callers: list[str]
    """Callers on a call path, outermost first."""
    calls: tuple[int, int]
    runtime_us: tuple[float | None, float | None]
    """Usual or mean exclusive runtime, by ``decided_by``."""
    decided_by: Literal["usual", "mean"]
    speedup: SpeedUp
    """Speed-up of that runtime."""
    gained_us: float
    """Time that all calls of the second run gained."""


class SpeedUps(msgspec.Struct, frozen=True):
    """Speed-ups of the second run against the first; those that gain most come first."""

    before: RunSide
    after: RunSide
    total: SpeedUp
    """Speed-up of the functions that both runs have, for as many calls as the second one makes."""
    functions: list[FunctionSpeedUp]
    paths: list[FunctionSpeedUp]


def speedups(found: Comparison) -> SpeedUps:
    """Return the speed-ups of a comparison from which nothing is subtracted (``is_net=False``)."""
    functions, paths = (
        sorted(map(_of_shift, shifts), key=lambda one: -one.gained_us)
        for shifts in (found.functions, found.paths)
    )
    return SpeedUps(found.before, found.after, _in_all(found), functions, paths)


def in_all(found: Comparison) -> str:
    """Return the speed-up of all calls together, in words."""
    speedup, total = _in_all(found), found.total
    if speedup.times is None:
        return "No function is called in both runs"
    expected_us = total.before_us + total.by_number_us
    before, after = (format_duration_us(time_us) for time_us in (expected_us, total.after_us))
    return (
        f"All calls together are {format_significant(speedup.times)} times as fast "
        f"(95 %: {interval(speedup)}): as many took {before} before, and take {after} after"
    )


def interval(speedup: SpeedUp) -> str:
    """Return the bounds of a speed-up, such as ``2.31 to 2.72``."""
    if speedup.low is None or speedup.high is None:
        return ""
    return f"{format_significant(speedup.low)} to {format_significant(speedup.high)}"


def _of_shift(shift: Shift) -> FunctionSpeedUp:
    change = shift.decisive
    return FunctionSpeedUp(
        shift.program,
        shift.name,
        shift.callers,
        shift.calls,
        shift.decisive_us,
        shift.decided_by,
        _of_change(change),
        -change.lost_us,
    )


def _of_change(change: Change) -> SpeedUp:
    if change.effect is None or change.low is None or change.high is None:
        return SpeedUp(None, None, None)
    return SpeedUp(1 / (1 + change.effect), 1 / (1 + change.high), 1 / (1 + change.low))


def _in_all(found: Comparison) -> SpeedUp:
    total = found.total
    expected_us = total.before_us + total.by_number_us
    if not expected_us or not total.after_us:
        return SpeedUp(None, None, None)
    times = expected_us / (expected_us + total.by_length_us)
    if found.has_several:
        low, high = expected_us / (expected_us + total.high_us), expected_us / (expected_us + total.low_us)
    else:
        # The error that is assumed is a share of the time, and speed-ups may be large: the gain is no measure
        # of it.
        factor = math.exp((total.high_us - total.low_us) / 2 / expected_us)
        low, high = times / factor, times * factor
    return SpeedUp(times, low, high)
