"""Records of calls that were not flagged, but explain why flagged ones waited.

Where ranks often wait long, a wait for a delay may be nothing unusual of its function, and is not recorded.
And a function whose calls differ much has long ones that nothing distinguishes, while whoever waits for one
of them may be flagged.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from chimbuko.causes.evidence.recordedrows import Indices, Interval, RecordedRows, Runtimes
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.waiting import Waits, is_communication, waits_in

MOST_CALLS = 4
"""Maximum number of waits of a rank in an interval that are returned, those that lost most."""
LEAST_INSIDE_SHARE = 0.25
"""Share of what a wait lost that must lie in the interval."""
_THREAD_BITS = np.uint64(32)


class RecordedWaits:
    """Calls of one rank in which ranks wait for each other, as far as its rows are known.

    A call is found if the steps in which it was entered and left are whole.
    """

    def __init__(self, rows: RecordedRows) -> None:
        self._rows = rows
        self._begins, self._ends = self._pairs()
        self._functions = rows.functions[self._begins]
        self._begin_us, self._end_us = rows.times_us[self._begins], rows.times_us[self._ends]
        self._runtimes_us = self._end_us - self._begin_us

    def during(self, asked: Interval) -> list[CallRecord]:
        """Return records of calls that waited in an interval.

        The expected runtime is the median of the other calls of their function that are known.
        """
        together_us = np.minimum(self._end_us, asked.end_us) - np.maximum(self._begin_us, asked.begin_us)
        longest = np.flatnonzero((together_us > 0) & (self._runtimes_us >= asked.least_us))
        longest = longest[np.argsort(-self._runtimes_us[longest], kind="stable")]
        found: list[CallRecord] = []
        for call in longest.tolist():
            if len(found) == MOST_CALLS:
                break
            begin, end = int(self._begins[call]), int(self._ends[call])
            if not self._rows.has_place(begin, end) or self._is_around(call, longest):
                continue
            others = (self._functions == self._functions[call]) & (together_us <= 0)
            if not others.any():
                continue
            usual_us = self._runtimes_us[others]
            lost_us = float(self._runtimes_us[call] - np.median(usual_us))
            if lost_us >= asked.least_us and together_us[call] >= LEAST_INSIDE_SHARE * lost_us:
                found.append(self._rows.wait(begin, end, usual_us))
        return found

    def _pairs(self) -> tuple[Indices, Indices]:
        """Return ENTRY and EXIT of each call in which ranks wait."""
        timers = self._rows.names.timers
        # A rank has as many waits of threads as it has threads, and they would take the place of its own.
        waits = [timer for timer, name in timers.items() if waits_in(name) not in (Waits.NOT, Waits.THREADS)]
        # Whatever lies behind them is none.
        is_wait = np.zeros(max(waits, default=0) + 2, np.bool_)
        is_wait[waits] = True
        rows = np.flatnonzero(is_wait.take(self._rows.functions.view(np.int64), mode="clip"))
        keys = self._rows.functions[rows] | self._rows.threads[rows] << _THREAD_BITS
        order = np.argsort(keys, kind="stable")
        rows, keys = rows[order], keys[order]
        is_pair = (keys[:-1] == keys[1:]) & self._rows.is_entry[rows[:-1]] & self._rows.is_exit[rows[1:]]
        return rows[:-1][is_pair], rows[1:][is_pair]

    def _is_around(self, call: int, others: Indices) -> bool:
        """Whether the wait is that of another one of these calls, inside this one."""
        begin, end, thread = self._begins[call], self._ends[call], self._rows.thread(int(self._begins[call]))
        inside = others[(self._begins[others] > begin) & (self._ends[others] < end)]
        return any(self._rows.thread(int(self._begins[other])) == thread for other in inside.tolist())


LEAST_COMPARABLE = 3
"""Minimum number of other calls of the function with the same caller: fewer do not say what is usual."""
NONE = -1
"""Number of a call that is not known as a whole."""


class _Calls(msgspec.Struct, frozen=True):
    """All calls that were entered and left between the first row and the last, as parallel arrays."""

    begins: Indices
    ends: Indices
    parents: Indices
    """Number of the call around each; ``NONE`` if that one was not entered or left there."""
    callers: Runtimes
    """Timer of the call around each, even if only a part of that call is known; ``NONE`` without one."""
    tops: Indices
    """Call whose own time each stretch between two rows of one thread is."""
    from_us: Runtimes
    to_us: Runtimes
    """Begin and end of these stretches."""


class RecordedLosses:
    """Calls of one rank that lost time themselves, as far as its rows are known.

    A call is found if the steps from its entry to its end are whole.
    """

    def __init__(self, rows: RecordedRows) -> None:
        self._rows = rows
        self._calls = calls = _calls(rows)
        self._functions = rows.functions[calls.begins].view(np.int64)
        self._begin_us, self._end_us = rows.times_us[calls.begins], rows.times_us[calls.ends]
        self._runtimes_us = self._end_us - self._begin_us
        self._children_us = self._sums(calls.parents, self._runtimes_us)
        self._exclusive_us = self._runtimes_us - self._children_us
        self._talking = self._talking_threads()
        """Threads for which others wait. Calls of further threads are no reason for a wait."""

    def during(self, asked: Interval) -> CallRecord | None:
        """Return the record of the call that lost most time by itself in the interval; None if none lost
        enough.

        The expected runtime is the median of the other calls of the function with the same caller, which are
        those outside of the interval. Calls in which ranks wait for others are left out.
        """
        calls = self._calls
        own_us = np.minimum(calls.to_us, asked.end_us) - np.maximum(calls.from_us, asked.begin_us)
        in_it_us = self._sums(calls.tops, np.maximum(own_us, 0))
        # These are two on a thread at most: their own times do not overlap.
        best, most_us = NONE, 0.0
        for call in np.flatnonzero(in_it_us >= asked.least_own_us).tolist():
            usual_us = self._comparable_us(call, asked)
            if len(usual_us) < LEAST_COMPARABLE or not self._may_be_meant(call):
                continue
            lost_us = min(float(self._exclusive_us[call] - np.median(usual_us)), float(in_it_us[call]))
            if lost_us >= max(asked.least_own_us, most_us):
                best, most_us = call, lost_us
        return None if best == NONE else self._record(best, asked)

    def _may_be_meant(self, call: int) -> bool:
        begin, end = int(self._calls.begins[call]), int(self._calls.ends[call])
        function = self._rows.names.timer_name(int(self._functions[call]))
        is_wait = waits_in(function) is not Waits.NOT
        return not is_wait and self._rows.thread(begin) in self._talking and self._rows.has_place(begin, end)

    def _talking_threads(self) -> set[int]:
        """Return the threads that communicate with other ranks."""
        timers = [timer for timer, name in self._rows.names.timers.items() if is_communication(name)]
        is_talking = np.isin(self._functions, timers)
        return set(self._rows.threads[self._calls.begins[is_talking]].tolist())

    def _comparable_us(self, call: int, asked: Interval) -> Runtimes:
        """Return the exclusive times of other calls of the function with the same caller."""
        is_other = (self._begin_us >= asked.end_us) | (self._end_us <= asked.begin_us)
        is_same = self._functions == self._functions[call]
        is_same &= self._calls.callers == self._calls.callers[call]
        comparable_us: Runtimes = self._exclusive_us[is_same & is_other]
        return comparable_us

    def _record(self, call: int, asked: Interval) -> CallRecord:
        calls = self._calls
        children = np.flatnonzero(calls.parents == call)
        children = children[np.argsort(calls.begins[children])]
        return self._rows.loss(
            int(calls.begins[call]),
            int(calls.ends[call]),
            int(self._exclusive_us[call]),
            self._comparable_us(call, asked),
            list(zip(calls.begins[children].tolist(), calls.ends[children].tolist(), strict=True)),
            asked.end_us,
        )

    def _sums(self, of: Indices, values: Runtimes) -> Runtimes:
        """Return sums of values by the number of the call that they belong to."""
        is_known = of != NONE
        return np.bincount(of[is_known], values[is_known], len(self._calls.begins)).astype(np.int64)


def _calls(rows: RecordedRows) -> _Calls:
    at = np.flatnonzero(rows.is_entry | rows.is_exit)
    at = at[np.argsort(rows.threads[at], kind="stable")]
    threads, is_entry = rows.threads[at].view(np.int64), rows.is_entry[at]
    count = len(at)
    is_first = np.ones(count, np.bool_)
    is_first[1:] = threads[1:] != threads[:-1]
    # How many calls of the thread are open behind a row.
    change = np.where(is_entry, 1, -1)
    depths = np.cumsum(change)
    thread = np.cumsum(is_first) - 1
    depths -= (depths - change)[is_first][thread]
    # A call is entered and left on one level, and there one follows the other.
    levels = np.where(is_entry, depths, depths + 1)
    lowest = int(levels.min(initial=0))
    levels -= lowest - 1
    span = int(levels.max(initial=0)) + 1
    places = (thread * span + levels) * count + np.arange(count)
    order = np.argsort(places, kind="stable")
    is_pair = places[order[1:]] // max(count, 1) == places[order[:-1]] // max(count, 1)
    is_pair &= is_entry[order[:-1]] & ~is_entry[order[1:]]
    is_pair &= rows.functions[at[order[:-1]]] == rows.functions[at[order[1:]]]
    begins, ends = order[:-1][is_pair], order[1:][is_pair]
    by_entry = np.full(count + 1, NONE, np.intp)
    by_entry[begins] = np.arange(len(begins))
    sorted_places = places[order]

    def open_at(positions: Indices, of_levels: Indices) -> Indices:
        """Return positions of the ENTRY of the call that is open on a level; ``NONE`` where none is known."""
        wanted = (thread[positions] * span + of_levels) * count + positions
        found = np.searchsorted(sorted_places, wanted, side="right") - 1
        last = order[np.maximum(found, 0)]
        is_open = (found >= 0) & is_entry[last] & (thread[last] == thread[positions])
        is_open &= levels[last] == of_levels
        return np.where(is_open, last, NONE)

    around = open_at(begins, levels[begins] - 1)
    own_levels = np.where(is_entry, levels, levels - 1)
    inside = open_at(np.arange(count), own_levels)
    callers = np.where(around == NONE, NONE, rows.functions[at[around]].view(np.int64))
    is_stretch = ~is_first[1:]
    return _Calls(
        begins=at[begins],
        ends=at[ends],
        parents=by_entry[around],
        callers=callers,
        tops=by_entry[inside][:-1][is_stretch],
        from_us=rows.times_us[at[:-1][is_stretch]],
        to_us=rows.times_us[at[1:][is_stretch]],
    )


def answers(rows: RecordedRows, asked: Sequence[Interval]) -> list[CallRecord]:
    """Return records of calls that waited in the intervals, and of those in which the rank lost time by
    itself.
    """
    waits = RecordedWaits(rows)
    # All calls are looked through only for who asks for that.
    losses = RecordedLosses(rows) if any(one.least_own_us for one in asked) else None
    found: dict[str, CallRecord] = {}
    for one in asked:
        found |= {record.id: record for record in waits.during(one)}
        lost = losses.during(one) if losses is not None and one.least_own_us else None
        found |= {} if lost is None else {lost.id: lost}
    return list(found.values())
