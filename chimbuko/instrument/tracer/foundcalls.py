"""Calls of a thread around a time in which it had no hook, so that nothing is known of what it did."""

from __future__ import annotations

import numpy as np

from chimbuko.core.arrays import Int64Array
from chimbuko.instrument.hooks.codes import FOUND
from chimbuko.instrument.tracer.chunks import EVENT_COLUMNS, EXIT

LONGEST_UNWINDING_NS = 10_000_000
"""Longest time without a hook after which a call that is open again is taken for the same one: an error
passes 1,000 frames in 1 ms, and a program may call a function again within 10 ms.
"""


def settled(events: Int64Array, before: list[int], last_ns: int, base: int) -> Int64Array:
    """Return events in which the rows of calls that were found open have become EXITs and ENTRYs.

    A call that ended unseen ends with the last event before. After a longer time, one that is open on both
    sides may be two, so it is recorded as two: a call must never seem longer than it was.

    Parameters
    ----------
    before
        Timers that were open before the events, the outermost first.
    last_ns
        Time of the last event before.
    base
        Number of the outermost calls that were never in doubt.
    """
    parts, start = [], 0
    for at in np.flatnonzero(events[:, 0] <= FOUND).tolist():
        part = events[start:at]
        before = open_timers(before, part[:, 0])
        last_ns = int(part[-1, 1]) if len(part) else last_ns
        now_ns = int(events[at, 1])
        start = at + 1 + FOUND - int(events[at, 0])
        found = (events[at + 1 : start, 0] >> 1).tolist()
        same = _common(before[base:], found) if now_ns - last_ns <= LONGEST_UNWINDING_NS else 0
        ended = [(timer << 1 | EXIT, last_ns) for timer in reversed(before[base + same :])]
        begun = [(timer << 1, now_ns) for timer in found[same:]]
        parts += [part, np.array(ended + begun, np.int64).reshape(-1, EVENT_COLUMNS)]
        before, last_ns = before[:base] + found, now_ns
    return np.concatenate((*parts, events[start:]))


def _common(one: list[int], other: list[int]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def open_timers(before: list[int], codes: Int64Array) -> list[int]:
    """Return the open timers, the outermost first, after the events ``codes``; ``before`` were open."""
    if not len(codes):
        return before
    exits = (codes & 1).astype(bool)
    depth = len(before) + np.cumsum(np.where(exits, -1, 1))
    # A call is still open if the depth never falls below that after its entry again.
    lowest_after = np.minimum.accumulate(depth[::-1])[::-1]
    entered = codes[~exits & (lowest_after >= depth)] >> 1
    return before[: max(0, int(lowest_after[0]))] + [int(timer) for timer in entered]
