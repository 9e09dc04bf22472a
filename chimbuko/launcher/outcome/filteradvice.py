"""Advice on functions to leave out of a trace, so that tracing costs less. No I/O.

Tracing itself is the larger overhead. A function is proposed where looking at its calls costs more than
it can show: they are short, so that their time is then simply their caller's; there are many of them;
and the time lost in abnormal ones among them is less than what it cost to trace them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from chimbuko.capture.trace.tausettings import SST_TIMERS, Patterns, TimerFilter
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.traceschema import UNRESOLVED
from chimbuko.runtime.protocol.messages import FunctionStatistics

CALL_COST_US = 1.3
"""Time that TAU and its trace plugin take for a call, in µs (measured, TAU 2.35)."""
CALL_ROWS = 2
ROW_BYTES = 48
"""Size of an ENTRY or EXIT, in bytes."""
SHORT_CALL_US = 10 * CALL_COST_US
"""Longest runtime of a short call, in µs: tracing adds more than a tenth to it."""
FREQUENT_SHARE = 0.01
"""Least share of all calls of a frequent function: leaving out rarer ones would not be noticed."""
LONGEST_WILDCARD = 250
"""Longest pattern with a wildcard. TAU compares a pattern with every name in a table on the stack, of name
times pattern bytes.
"""
LARGEST_STEP_BYTES = 5_000_000
"""Largest step that never holds up the application for long, however stuck its reader."""


class FunctionCost(msgspec.Struct, frozen=True):
    """Cost of tracing one function over all ranks, and the time of its calls."""

    program: int
    name: str
    calls: int
    size_bytes: int
    """Size of its ENTRY and EXIT rows, in bytes."""
    tracing_us: float
    held_us: float
    """Exclusive time of all its calls."""
    mean_us: float
    """Mean inclusive time of a call, in µs."""
    anomalies: int
    severity_us: float
    is_excluded: bool
    """Whether the function is proposed to be left out."""


class FilterAdvice(msgspec.Struct, frozen=True):
    """Functions by what they cost, and what leaving out the proposed ones would save."""

    functions: list[FunctionCost]
    """Functions with the most calls first."""
    patterns: list[str]
    """The proposed functions' names as TAU's select file takes them."""
    rows: int
    """Number of rows of the whole trace, with messages and counters."""
    size_bytes: int
    tracing_us: float
    held_us: float
    saved_rows: int
    saved_bytes: int
    saved_us: float

    def select_file(self, before: TimerFilter) -> TimerFilter:
        """Return the filter with what was left out before, what is proposed, and what every run under TAU has
        to leave out.
        """
        excluded = dict.fromkeys((SST_TIMERS, *before.timers.exclude, *self.patterns))
        return TimerFilter(Patterns(before.timers.include, tuple(excluded)), before.counters)


class LargeStep(msgspec.Struct, frozen=True):
    """The largest step of a run, above ``LARGEST_STEP_BYTES``, and what would mend it."""

    program: int
    rank: int
    size_bytes: int
    period_s: float
    """Trace period with which it would not have been so large."""
    exclude: list[str]
    """Functions to leave out instead, those of most calls first; empty if no harmless ones suffice."""


def advise(functions: Sequence[FunctionStatistics], health: Sequence[StreamHealth]) -> FilterAdvice:
    """Propose functions to leave out of the trace that gave these statistics."""
    all_calls = sum(function.calls for function in functions)
    candidates = {
        (f.program, f.name): pattern
        for f in functions
        if _is_candidate(f, all_calls) and (pattern := exclusion_pattern(f.name))
    }
    kept = [function.name for function in functions if (function.program, function.name) not in candidates]
    # The file is the same for all programs, and a pattern may match more than the name that it is made of.
    excluded = {
        key: pattern
        for key, pattern in candidates.items()
        if not any(not Patterns(exclude=(pattern,)).allows(name) for name in kept)
    }
    costs = [_cost(function, (function.program, function.name) in excluded) for function in functions]
    saved = [cost for cost in costs if cost.is_excluded]
    return FilterAdvice(
        functions=sorted(costs, key=lambda cost: cost.calls, reverse=True),
        patterns=sorted(set(excluded.values())),
        rows=sum(stream.rows for stream in health),
        size_bytes=sum(stream.size_bytes for stream in health),
        tracing_us=sum(cost.tracing_us for cost in costs),
        held_us=sum(cost.held_us for cost in costs),
        saved_rows=sum(CALL_ROWS * cost.calls for cost in saved),
        saved_bytes=sum(cost.size_bytes for cost in saved),
        saved_us=sum(cost.tracing_us for cost in saved),
    )


def mend_step(largest: StreamHealth, advice: FilterAdvice, mean_step_s: float) -> LargeStep:
    """Say what would make the largest step smaller.

    Parameters
    ----------
    largest
        The stream that it is of.
    mean_step_s
        Mean time from one step of the stream to the next.
    """
    share = LARGEST_STEP_BYTES / largest.largest_step_bytes
    return LargeStep(
        program=largest.program,
        rank=largest.rank,
        size_bytes=largest.largest_step_bytes,
        period_s=_rounded_down(mean_step_s * share),
        exclude=_enough_to_exclude(advice, (1 - share) * advice.size_bytes),
    )


def exclusion_pattern(name: str) -> str:
    """Return a pattern that matches ``name``; empty if there is none that TAU could use.

    The format has no escape: a wildcard stands for itself too, and ``?`` for any one character is closer
    than ``#`` for any string. Blanks at the ends of a line are cut off.
    """
    blanks_before, blanks_after = len(name) - len(name.lstrip()), len(name) - len(name.rstrip())
    inner = name.strip().replace("#", "?").replace("\n", "?")
    pattern = "?" * blanks_before + inner + "?" * blanks_after * bool(inner)
    return pattern if "?" not in pattern or len(pattern) <= LONGEST_WILDCARD else ""


def _enough_to_exclude(advice: FilterAdvice, size_bytes: float) -> list[str]:
    names: list[str] = []
    for cost in advice.functions:
        if size_bytes > 0 and cost.is_excluded:
            names.append(cost.name)
            size_bytes -= cost.size_bytes
    return names if size_bytes <= 0 else []


def _is_candidate(function: FunctionStatistics, all_calls: int) -> bool:
    # Addresses change from run to run, and MPI calls carry the messages.
    is_needed = function.name.startswith(("MPI", UNRESOLVED))
    is_short = function.inclusive_mean_us < SHORT_CALL_US
    is_frequent = function.calls >= FREQUENT_SHARE * all_calls
    is_harmless = function.severity_us <= function.calls * CALL_COST_US
    return is_short and is_frequent and is_harmless and not is_needed


def _cost(function: FunctionStatistics, is_excluded: bool) -> FunctionCost:
    return FunctionCost(
        program=function.program,
        name=function.name,
        calls=function.calls,
        size_bytes=function.calls * CALL_ROWS * ROW_BYTES,
        tracing_us=function.calls * CALL_COST_US,
        held_us=function.calls * function.exclusive_mean_us,
        mean_us=function.inclusive_mean_us,
        anomalies=function.anomalies,
        severity_us=function.severity_us,
        is_excluded=is_excluded,
    )


def _rounded_down(value: float) -> float:
    """Round a number down to two significant digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1) if value > 0 else 1.0
    return round(math.floor(value / unit) * unit, 9)
