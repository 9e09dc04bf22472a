"""Calls that a process made, and those that are not recorded: how many, why, and of which functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from chimbuko.core.sourcecensus import LEFT_OUT
from chimbuko.instrument.recorder.ring import ProcessFile, Ring

NO_ROOM = "for which there was no room"
TOO_DEEP = "nested too deeply"
INTERRUPTING = "of signals' handlers that came while an event was written"
STACKLESS = "on more stacks than there are lanes for"
MOST_NAMED = 5


def call_counts(rings: Sequence[Ring], recorded: int) -> dict[str, int]:
    """Return how many calls were seen, recorded, and not recorded by each reason; 0 where there were none.

    Calls of threads that have no ring are not seen.

    Parameters
    ----------
    recorded
        Number of calls that were recorded.
    """
    reasons = {
        LEFT_OUT: sum(int(ring.left_out().sum()) for ring in rings),
        NO_ROOM: _sum(rings, "dropped_calls"),
        TOO_DEEP: _sum(rings, "too_deep"),
        INTERRUPTING: _sum(rings, "interrupting_calls"),
        STACKLESS: _sum(rings, "stackless_calls"),
    }
    return {"seen": recorded + sum(reasons.values()), "recorded": recorded, **reasons}


def describe_unseen(
    process: ProcessFile, rings: Sequence[Ring], names_of: Callable[[Sequence[int]], list[str]]
) -> list[str]:
    """Describe what was not recorded but for the functions that are left out: an entry for each kind."""
    counts = call_counts(rings, 0)
    reasons = {
        reason: counts[reason] for reason in (NO_ROOM, TOO_DEEP, INTERRUPTING, STACKLESS) if counts[reason]
    }
    found = []
    if calls := sum(reasons.values()):
        why = ", ".join(
            f"{number} {reason}" if len(reasons) > 1 else reason for reason, number in reasons.items()
        )
        found.append(f"{calls} calls {why}{_by_function(rings, names_of)}")
    others = {
        "messages and counters": _sum(rings, "dropped_rows"),
        "threads": process.number("threads_without_ring"),
        "messages beyond the table of requests": process.number("lost_requests"),
        "ends of calls that began on another thread": _sum(rings, "strayed_calls"),
    }
    return found + [f"{number} {what}" for what, number in others.items() if number]


def _by_function(rings: Sequence[Ring], names_of: Callable[[Sequence[int]], list[str]]) -> str:
    calls: Counter[int] = Counter()
    for ring in rings:
        calls.update(dict(ring.dropped()))
    others = calls.pop(0, 0)
    most = calls.most_common(MOST_NAMED)
    if not most:
        return ""
    names = names_of([key for key, _ in most])
    parts = [f"{number} of {name}" for (_, number), name in zip(most, names, strict=True)]
    others += calls.total() - sum(number for _, number in most)
    parts += [f"{others} of others"] if others else []
    return f" ({', '.join(parts)})"


def _sum(rings: Sequence[Ring], field: str) -> int:
    return sum(ring.number(field) for ring in rings)
