"""The matrix of messages, of which only the cells that are not 0 are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import COMM_PARTNER, COMM_RANK, COMM_SIZE, COMM_TYPE

MOST_RANKS = 1 << 20
"""A rank beyond it is damage, or a wildcard."""


@dataclass
class Cells:
    """One direction: messages and bytes by (rank, partner)."""

    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    sizes_bytes: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, ranks: UInt64Array, partners: UInt64Array, sizes_bytes: UInt64Array) -> None:
        """Count messages: of each its rank, its partner and its size."""
        keys, places, counts = np.unique(
            ranks * np.uint64(MOST_RANKS) + partners, return_inverse=True, return_counts=True
        )
        sizes = np.zeros(len(keys), np.uint64)
        np.add.at(sizes, places, sizes_bytes)
        for key, count, size in zip(keys.tolist(), counts.tolist(), sizes.tolist(), strict=True):
            cell = divmod(key, MOST_RANKS)
            self.counts[cell] = self.counts.get(cell, 0) + count
            self.sizes_bytes[cell] = self.sizes_bytes.get(cell, 0) + size

    def put(self, cell: tuple[int, int], count: int, size_bytes: int) -> None:
        """Set the messages and bytes of (rank, partner); none are not kept."""
        if count:
            self.counts[cell], self.sizes_bytes[cell] = count, size_bytes


@dataclass
class MessageMatrix:
    """Messages of one program, as the senders and as the receivers have counted them."""

    sent: Cells = field(default_factory=Cells)
    received: Cells = field(default_factory=Cells)
    ranks: int = 0
    """How many there are, by the highest one that was seen."""
    left_out: int = 0
    """Rows whose rank or partner is none."""

    def add(self, comms: UInt64Array, send: int, receive: int) -> None:
        """Count the messages of a step.

        Parameters
        ----------
        comms
            (N, 8), columns ``COMM_...``.
        send, receive
            Numbers of these two events in the stream.
        """
        if not len(comms):
            return
        possible = (comms[:, COMM_RANK] < MOST_RANKS) & (comms[:, COMM_PARTNER] < MOST_RANKS)
        self.left_out += int(np.count_nonzero(~possible))
        rows = comms[possible]
        for cells, kind in ((self.sent, send), (self.received, receive)):
            own = rows[rows[:, COMM_TYPE] == kind]
            cells.add(own[:, COMM_RANK], own[:, COMM_PARTNER], own[:, COMM_SIZE])
        if len(rows):
            highest = int(max(rows[:, COMM_RANK].max(), rows[:, COMM_PARTNER].max()))
            self.ranks = max(self.ranks, highest + 1)
