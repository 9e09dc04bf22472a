"""Buffer of the rows of one thread: that thread adds them, and another takes them, without a lock.

Rows are int64 numbers, one after the other. Adding a row, and taking rows, are single operations under
Python's own lock: a signal's handler, or an exception that it raises, comes before or after them.
"""

from __future__ import annotations

import _thread
import struct
from array import array

from chimbuko.instrument.hooks.lanepool import LanePool
from chimbuko.instrument.tracer.chunks import ThreadRows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ThreadBuffer:
    """Rows that one thread has recorded and nobody has taken yet.

    Parameters
    ----------
    number
        Number of the thread.
    owner
        Function that returns None once the thread has ended.
    new_lane
        Function that returns the number of a further stack of the thread.
    """

    def __init__(self, number: int, owner: Callable[[], object], new_lane: Callable[[], int]) -> None:
        self.number = number
        self.owner = owner
        self.ident = _thread.get_ident()
        self.native_id = _thread.get_native_id()
        self.name = "MainThread"
        """Name that the program has given to the thread; that of the main thread says nothing."""
        self.lanes = LanePool(number, new_lane)
        self.events: list[int] = []
        """Code and time of each event, in a list: adding a row takes a fifth of the time of an array."""
        self.comms = array("q")
        self.counters = array("q")
        self.work: list[int] = []
        """Rows of counters, as ``counters`` has them, that a library in C adds."""
        self._packed: list[bytes] = []
        self._packed_work: list[bytes] = []
        self._moved = 0
        """Number of values that have left ``events``."""

    @property
    def recorded(self) -> int:
        """Number of values of events that were ever recorded."""
        return self._moved + len(self.events)

    def pack(self) -> None:
        """Store lists as arrays, which take a third of their memory."""
        self._moved += _pack(self.events, self._packed)
        _pack(self.work, self._packed_work)

    def take(self) -> ThreadRows:
        """Take all rows out of the buffer."""
        self.pack()
        packed, self._packed = self._packed, []
        work, self._packed_work = self._packed_work, []
        return ThreadRows(
            self.number,
            b"".join(packed),
            _take(self.comms),
            b"".join((_take(self.counters), *work)),
            native_id=self.native_id,
        )


def _pack(rows: list[int], packed: list[bytes]) -> int:
    """Move the values of a list into an array; return how many there were."""
    # The thread may add more meanwhile, but only at the end.
    taken = rows[:]
    del rows[: len(taken)]
    if taken:
        packed.append(struct.pack(f"={len(taken)}q", *taken))
    return len(taken)


def _take(rows: array[int]) -> bytes:
    # The thread may add more meanwhile, as with events.
    taken = rows.tobytes()
    del rows[: len(taken) // rows.itemsize]
    return taken
