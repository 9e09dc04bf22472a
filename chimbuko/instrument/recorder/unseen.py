"""Calls that a process made, and those that are not recorded: how many, why, and of which functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chimbuko.core.sourcecensus import LEFT_OUT, UNCOUNTED
from chimbuko.instrument.recorder.leftout import summed
from chimbuko.instrument.recorder.ring import ProcessFile, Ring

NO_ROOM = "for which there was no room"
TOO_DEEP = "nested too deeply"
INTERRUPTING = "of signals' handlers that came while an event was written"
STACKLESS = "on more stacks than there are lanes for"
MOST_NAMED = 5


def call_counts(process: ProcessFile, rings: Sequence[Ring], recorded: int) -> dict[str, int]:
    """Return how many calls were seen, recorded, and not recorded by each reason; 0 if there were none.

    Calls of threads that have no ring are not seen, nor those of call sites that are disarmed.

    Parameters
    ----------
    recorded
        Number of calls that were recorded.
    """
    reasons = {LEFT_OUT: int(summed(ring.left_out() for ring in rings).sum()), **_by_reason(rings)}
    uncounted = int(np.count_nonzero(process.field("functions")["uncounted_ns"]))
    seen = recorded + sum(reasons.values())
    return {"seen": seen, "recorded": recorded, **reasons, UNCOUNTED: uncounted}


def _by_reason(rings: Sequence[Ring]) -> dict[str, int]:
    return {
        NO_ROOM: _sum(rings, "dropped_calls"),
        TOO_DEEP: _sum(rings, "too_deep"),
        INTERRUPTING: _sum(rings, "interrupting_calls"),
        STACKLESS: _sum(rings, "stackless_calls"),
    }


def describe_unseen(
    process: ProcessFile, rings: Sequence[Ring], names_of: Callable[[Sequence[int]], list[str]]
) -> list[str]:
    """Describe what was not recorded but for the functions that are left out: an entry for each kind."""
    reasons = {reason: number for reason, number in _by_reason(rings).items() if number}
    found = []
    if calls := sum(reasons.values()):
        why = ", ".join(
            f"{number} {reason}" if len(reasons) > 1 else reason for reason, number in reasons.items()
        )
        found.append(f"{calls} calls {why}{_by_function(process, rings, names_of)}")
    others = {
        "messages and counters": _sum(rings, "dropped_rows"),
        "threads": process.number("threads_without_ring"),
        "messages beyond the table of requests": process.number("lost_requests"),
        "ends of calls that began on another thread": _sum(rings, "strayed_calls"),
    }
    return found + [f"{number} {what}" for what, number in others.items() if number]


def _by_function(
    process: ProcessFile, rings: Sequence[Ring], names_of: Callable[[Sequence[int]], list[str]]
) -> str:
    keys, calls = process.field("functions")["key"], summed(ring.dropped() for ring in rings)
    (rows,) = np.nonzero((calls > 0) & (keys > 0))
    if not len(rows):
        return ""
    rows = rows[np.argsort(-calls[rows], kind="stable")][:MOST_NAMED]
    names = names_of([int(key) for key in keys[rows]])
    parts = [f"{calls[row]} of {name}" for row, name in zip(rows, names, strict=True)]
    others = int(calls.sum() - calls[rows].sum())
    parts += [f"{others} of others"] if others else []
    return f" ({', '.join(parts)})"


def _sum(rings: Sequence[Ring], field: str) -> int:
    return sum(ring.number(field) for ring in rings)
