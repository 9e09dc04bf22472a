"""Counting what a rank sends to each other one, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.kernels.declare import kernel
from chimbuko.core.traceschema import COMM_PARTNER, COMM_PROGRAM, COMM_RANK, COMM_SIZE, COMM_TYPE

OTHERS_ROW = 0
MOST_MESSAGE_BYTES = 1 << 48
"""A message of so many bytes is damage: its size is not counted."""


@kernel
def count_sends(
    comms: npt.NDArray[np.uint64],
    rank: np.uint64,
    send_type: np.uint64,
    places: npt.NDArray[np.int32],
    destinations: npt.NDArray[np.int32],
    totals: npt.NDArray[np.int64],
    count: int,
) -> int:
    """Add the messages sent in a step to ``totals``; returns how many rows are in use.

    Parameters
    ----------
    comms
        u8[n, 8] in TAU's layout. Rows of another rank, or of messages received, are left out.
    places
        i4[ranks]: the row of each destination, or 0.
    destinations, totals
        i4[rows], i8[rows, 2]: destination of each row; its messages and bytes. Row 0 is for all those for
        which there is no room.
    count
        Rows in use, at least one.
    """
    for at in range(len(comms)):
        if comms[at, COMM_TYPE] != send_type or comms[at, COMM_PROGRAM] != 0 or comms[at, COMM_RANK] != rank:
            continue
        destination = comms[at, COMM_PARTNER]
        row = OTHERS_ROW
        if destination < np.uint64(len(places)):
            row = places[destination]
            if row == OTHERS_ROW and count < len(destinations):
                row = count
                places[destination] = row
                destinations[row] = destination
                count += 1
        totals[row, 0] += 1
        size_bytes = comms[at, COMM_SIZE]
        if size_bytes < np.uint64(MOST_MESSAGE_BYTES):
            totals[row, 1] += np.int64(size_bytes)
    return count
