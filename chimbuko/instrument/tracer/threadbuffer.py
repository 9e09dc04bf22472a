"""Rows of one thread on their way out: added by that thread, taken by another, without a lock.

Rows are int64 numbers, one after the other. A row is added, and some are taken, by single operations under
Python's own lock: a signal's handler, or an exception that it raises, comes before or behind them.
"""

from __future__ import annotations

import struct
from array import array

from chimbuko.instrument.tracer.chunks import ThreadRows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ThreadBuffer:
    """What one thread has recorded and nobody has taken yet.

    Parameters
    ----------
    number
        Of the thread.
    owner
        Gives something while the thread lives, and then None.
    """

    def __init__(self, number: int, owner: Callable[[], object]) -> None:
        self.number = number
        self.owner = owner
        self.events: list[int] = []
        """Code and time of each: a list takes a row in a fifth of the time that an array does."""
        self.comms = array("q")
        self.counters = array("q")
        self._packed: list[bytes] = []

    def pack(self) -> None:
        """Make events as small as they are on their way: a third of what they are here."""
        # The owner may add more meanwhile, but only at the end.
        events = self.events[:]
        del self.events[: len(events)]
        if events:
            self._packed.append(struct.pack(f"={len(events)}q", *events))

    def take(self) -> ThreadRows:
        """All rows; they are gone from here then."""
        self.pack()
        packed, self._packed = self._packed, []
        return ThreadRows(
            self.number,
            b"".join(packed),
            _take(self.comms),
            _take(self.counters),
        )


def _take(rows: array[int]) -> bytes:
    # As with events.
    taken = rows.tobytes()
    del rows[: len(taken) // rows.itemsize]
    return taken
