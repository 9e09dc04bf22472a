"""Raw rows of a stream as its flight recorder holds them, in a third of the bytes of TAU's layout."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import EVENT_THREAD, TraceStep

COLUMNS: Final = {"open": 2, "events": 2, "messages": 5, "counters": 3, "operations": 6}
"""Number of columns of the packed rows of each part; the first column is the time in µs.

``open``, ``events``: kind, thread and timer in 16, 16 and 32 bits. ``messages``: partner, bytes, tag, and
kind and thread in 16 and 16 bits, over 32 empty ones. ``counters``: value, and thread and counter in 32 and
32 bits. ``operations``, of which only collective ones are kept: communicator, root, number, bytes, and kind
and thread as with messages.
"""
ROW_PARTS: Final = ("events", "messages", "counters", "operations")


class RecordedStep(msgspec.Struct, frozen=True, array_like=True):
    """Recorded rows of one step, or of a piece of one."""

    step: int
    start_us: int
    end_us: int
    open: bytes
    """ENTRY rows, with their own times, of the calls open at ``start_us``; outer calls of a thread first."""
    events: bytes
    messages: bytes
    counters: bytes
    operations: bytes = b""
    is_whole: bool = False
    """Whether all events of the step are there: then a row has the number that it has in the step."""

    def packed(self, part: str) -> UInt64Array:
        """Return the rows of one part, uint64[n, columns]."""
        return np.frombuffer(getattr(self, part), np.uint64).reshape(-1, COLUMNS[part])

    @property
    def rows(self) -> int:
        """Number of rows that the step itself has."""
        return sum(len(self.packed(part)) for part in ROW_PARTS)

    @property
    def size_bytes(self) -> int:
        """Size of all parts in bytes."""
        return sum(len(getattr(self, part)) for part in COLUMNS)

    def trace_step(self, rank: int, with_open: bool) -> TraceStep:
        """Return the step in TAU's layout; with the ENTRY rows of the calls that were open, if wanted."""
        events = _events(self.packed("open"), rank) if with_open else np.empty((0, 6), np.uint64)
        events = np.concatenate((events, _events(self.packed("events"), rank)))
        if with_open:
            events = events[np.argsort(events[:, EVENT_THREAD], kind="stable")]
        time, partner, size_bytes, tag, code = self.packed("messages").T
        messages = _rows(rank, code >> 32 & 0xFFFF, code >> 48, tag, partner, size_bytes, time)
        time, value, code = self.packed("counters").T
        counters = _rows(rank, code >> 32, code & 0xFFFFFFFF, value, time)
        time, communicator, root, number, size_bytes, code = self.packed("operations").T
        on = communicator, root, number, size_bytes, np.zeros(len(time), np.uint64)
        operations = _rows(rank, code >> 32 & 0xFFFF, code >> 48, *on, time)
        return TraceStep(self.step, events, messages, counters, operations=operations)


def _events(packed: UInt64Array, rank: int) -> UInt64Array:
    time, code = packed.T
    return _rows(rank, code >> 32 & 0xFFFF, code >> 48, code & 0xFFFFFFFF, time)


def _rows(rank: int, *columns: UInt64Array) -> UInt64Array:
    """Return rows in TAU's layout: program 0, the rank, and the columns."""
    table = np.empty((len(columns[0]), 2 + len(columns)), np.uint64)
    table[:, 0], table[:, 1] = 0, rank
    for number, column in enumerate(columns, 2):
        table[:, number] = column
    return table


def short_communicators(identities: UInt64Array) -> UInt64Array:
    """Return communicators as records name them: half of the bits in the trace; 0 if it is not known."""
    halves = np.maximum(identities >> np.uint64(32), np.uint64(1))
    return np.where(identities == 0, np.uint64(0), halves)
