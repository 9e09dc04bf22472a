"""Rows of one thread on their way out: appended by that thread, taken by another, without a lock.

Rows are int64 numbers in flat arrays: two for an event, so that recording one allocates nothing
that lasts. Appending and taking are single operations under Python's own lock.
"""

from __future__ import annotations

from array import array

from chimbuko.tracer.chunks import COMM_COLUMNS, COUNTER_COLUMNS, EVENT_COLUMNS, ThreadRows

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading


class ThreadBuffer:
    """What one thread has recorded and nobody has taken yet.

    Whoever appends an event appends its code, then its time.
    """

    def __init__(self, number: int, owner: threading.Thread) -> None:
        self.number = number
        self.owner = owner
        self.events = array("q")
        self.comms = array("q")
        self.counters = array("q")

    def take(self) -> ThreadRows:
        """All complete rows; they are gone from here then."""
        return ThreadRows(
            self.number,
            _take(self.events, EVENT_COLUMNS),
            _take(self.comms, COMM_COLUMNS),
            _take(self.counters, COUNTER_COLUMNS),
        )


def _take(rows: array[int], columns: int) -> bytes:
    # The owner may append meanwhile, but only at the end; half an event stays.
    size = len(rows) // columns * columns
    taken = rows[:size].tobytes()
    del rows[:size]
    return taken
