"""What the calls of one rank took, function by function: its call paths, added up. Pure."""

from __future__ import annotations

import numpy as np

from chimbuko.core.arrays import BoolArray, Rows
from chimbuko.core.kernels.paths import NONE
from chimbuko.runtime.protocol.telemetry import OTHERS, TIMER

MOST_TIMERS = 256
"""Of a rank in one report, those that take the most time: 370 kB for 40 ranks, as much as their paths."""


def rank_timers(program: int, rank: int, paths: Rows, most: int = MOST_TIMERS) -> Rows:
    """``TIMER`` rows of a rank, one for each function with calls, of its ``PATH`` rows.

    Calls of further functions, and those on paths without a row of their own, are those of ``OTHERS``, of
    which calls and exclusive time are known.
    """
    is_called = paths["calls"] != 0
    called = paths[is_called]
    functions, at = np.unique(called["function"], return_inverse=True)
    timers = np.zeros(len(functions), TIMER)
    timers["program"], timers["rank"], timers["function"] = program, rank, functions
    np.add.at(timers["calls"], at, called["calls"])
    np.add.at(timers["exclusive_us"], at, called["exclusive_us"])
    inclusive_us = np.where(_is_outermost(paths)[is_called], called["inclusive_us"], 0.0)
    np.add.at(timers["inclusive_us"], at, inclusive_us)
    return _with_rest_together(timers, most)


def _with_rest_together(timers: Rows, most: int) -> Rows:
    """The rows of those that take the most time, and one of the others, if there are any."""
    by_time = np.argsort(-timers["exclusive_us"], kind="stable")
    is_other = timers["function"] == OTHERS
    is_other[by_time[most:]] = True
    if not is_other.any():
        return timers
    rest = timers[is_other][:1].copy()
    rest["function"], rest["inclusive_us"] = OTHERS, 0.0
    for name in ("calls", "exclusive_us"):
        rest[name] = timers[name][is_other].sum()
    return np.concatenate([timers[~is_other], rest])


def _is_outermost(paths: Rows) -> BoolArray:
    """Whether no call around those on a path is of the same function, bool[paths]."""
    function, parent = paths["function"], paths["parent"]
    is_outermost = np.ones(len(paths), np.bool_)
    at = np.flatnonzero(parent != NONE)
    above = parent[at]
    while len(at):
        is_outermost[at] &= function[above] != function[at]
        above = parent[above]
        has_more = above != NONE
        at, above = at[has_more], above[has_more]
    return is_outermost
