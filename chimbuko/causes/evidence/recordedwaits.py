"""Waits that were not flagged: calls in which a rank waited during an interval.

Where ranks often wait long, a wait for a delay may be nothing unusual of its function, and is not recorded.
"""

from __future__ import annotations

import numpy as np

from chimbuko.causes.evidence.recordedrows import Indices, Interval, RecordedRows
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.waiting import Waits, waits_in

MOST_CALLS = 4
"""Of a rank and interval, those that lost most."""
LEAST_SHARE = 0.25
"""Of what a call lost: so much of its time lies in the interval."""
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
        """Records of calls that waited then.

        What is expected of them is the median of the other calls of their function that are known.
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
            if lost_us >= asked.least_us and together_us[call] >= LEAST_SHARE * lost_us:
                found.append(self._rows.wait(begin, end, usual_us))
        return found

    def _pairs(self) -> tuple[Indices, Indices]:
        """ENTRY and EXIT of each call in which ranks wait."""
        timers = self._rows.names.timers
        waits = [timer for timer, name in timers.items() if waits_in(name) is not Waits.NOT]
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
        """Whether the wait is that of one of these calls, inside of it."""
        begin, end, thread = self._begins[call], self._ends[call], self._rows.thread(int(self._begins[call]))
        inside = others[(self._begins[others] > begin) & (self._ends[others] < end)]
        return any(self._rows.thread(int(self._begins[other])) == thread for other in inside.tolist())
