"""Rows of a thread as arrays, with numbers of names that several sources share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from chimbuko.core.arrays import Int64Array
from chimbuko.instrument.tracer.chunks import (
    COMM_COLUMNS,
    COUNTER_COLUMNS,
    DETAIL_COLUMNS,
    EVENT_COLUMNS,
    OPERATION_COLUMNS,
    ThreadRows,
)


class Renumbering:
    """Numbers of the names of one source among those of several.

    Parameters
    ----------
    known
        Number of the first name that gets another number.
    fresh
        Numbers that no name has yet.
    """

    def __init__(self, known: int, fresh: Iterator[int]) -> None:
        self._numbers = np.arange(known)
        self._fresh = fresh

    def of(self, numbers: Int64Array) -> Int64Array:
        """Return the new numbers."""
        self._reach(int(numbers.max(initial=0)))
        found: Int64Array = self._numbers[numbers]
        return found

    def names(self, names: Mapping[int, str]) -> dict[int, str]:
        """Return the names by their new numbers."""
        self._reach(max(names, default=0))
        return {int(self._numbers[number]): name for number, name in names.items()}

    def _reach(self, highest: int) -> None:
        missing = highest + 1 - len(self._numbers)
        if missing > 0:
            self._numbers = np.append(self._numbers, list(itertools.islice(self._fresh, missing)))


class Source:
    """Numbers of the timers and the counters of one source."""

    def __init__(self, timers: Renumbering, counters: Renumbering) -> None:
        self.timers = timers
        self.counters = counters

    def arrays(self, rows: ThreadRows) -> list[Int64Array]:
        """Return the rows of a thread, as arrays with the numbers that they have for all sources."""
        events = _array(rows.events, EVENT_COLUMNS).copy()
        is_call = events[:, 0] >= 0
        codes = events[is_call, 0]
        events[is_call, 0] = self.timers.of(codes >> 1) << 1 | codes & 1
        comms = _array(rows.comms, COMM_COLUMNS)
        details = _array(rows.details or bytes(8 * DETAIL_COLUMNS * len(comms)), DETAIL_COLUMNS)
        counters = _array(rows.counters, COUNTER_COLUMNS).copy()
        counters[:, 0] = self.counters.of(counters[:, 0])
        messages = np.hstack((comms[:, :-1], details, comms[:, -1:]))
        return [events, messages, counters, _array(rows.operations, OPERATION_COLUMNS)]


def _array(rows: bytes, columns: int) -> Int64Array:
    return np.frombuffer(rows, np.int64).reshape(-1, columns)


def thread_rows(
    thread: int, events: Int64Array, messages: Int64Array, counters: Int64Array, operations: Int64Array
) -> ThreadRows:
    """Return the rows of a thread, of the arrays of ``Source.arrays``."""
    details = messages[:, -1 - DETAIL_COLUMNS : -1]
    comms = np.delete(messages, np.s_[-1 - DETAIL_COLUMNS : -1], 1)
    return ThreadRows(
        thread,
        *(events.tobytes(), comms.tobytes(), counters.tobytes(), details.tobytes(), operations.tobytes()),
    )
