"""Deltas that the server has not saved yet: it may need them again. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from chimbuko.protocol.messages import Acknowledgement, Delta

MOST_BYTES = 16 << 20
"""Kept for a server that does not save: several seconds of 300 epochs each; then what is learned stays with
the streams."""

Place = tuple[int, int]
"""Incarnation and sequence."""


class PendingDeltas:
    """An agent's deltas in order, from the first that is not saved.

    Parameters
    ----------
    inherited
        Deltas of the agent's predecessor, where that died before they were acknowledged.
    """

    def __init__(self, inherited: Sequence[Delta] = ()) -> None:
        self._deltas: deque[Delta] = deque(inherited)
        self._size_bytes = sum(map(_size_bytes, self._deltas))
        self.merged: Place = (-1, 0)
        """The last delta that the server has merged."""

    def __len__(self) -> int:
        return len(self._deltas)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more until the server saves."""
        return self._size_bytes > MOST_BYTES

    @property
    def is_waiting(self) -> bool:
        """Whether the last delta is not merged yet: the next one has to wait for it."""
        return bool(self._deltas) and not self.is_merged(self._deltas[-1])

    def is_merged(self, delta: Delta) -> bool:
        """Whether the server has merged it."""
        return _place(delta) <= self.merged

    def add(self, delta: Delta) -> Delta:
        """A new one; returns it as it is to be sent."""
        self._deltas.append(delta)
        self._size_bytes += _size_bytes(delta)
        return msgspec.structs.replace(delta, since=self._deltas[0].sequence)

    def acknowledge(self, acknowledged: Acknowledgement) -> bool:
        """Take in how far the server is; False where it is not as far as it was: it lost its memory, or
        part of it.
        """
        merged = acknowledged.incarnation, acknowledged.merged
        while self._deltas and _is_saved(self._deltas[0], acknowledged):
            self._size_bytes -= _size_bytes(self._deltas.popleft())
        has_kept = merged >= self.merged
        self.merged = merged
        return has_kept

    def all(self) -> list[Delta]:
        """All of them, to be sent again; each says which is the first."""
        return [msgspec.structs.replace(delta, since=self._deltas[0].sequence) for delta in self._deltas]


def _is_saved(delta: Delta, acknowledged: Acknowledgement) -> bool:
    return delta.incarnation <= acknowledged.incarnation and delta.sequence <= acknowledged.saved


def _size_bytes(delta: Delta) -> int:
    """About what it takes in memory."""
    table = delta.table
    return 1000 + len(delta.rows) + len(table.narrow) + len(table.cells) + len(table.values)


def _place(delta: Delta) -> Place:
    return delta.incarnation, delta.sequence
