"""Rows by key, compiled, with open addressing, so that a look-up is one or two memory accesses, and counting
of many ranks' steps at once; wrapped by ``chimbuko.pserver.state.totals`` and ``rankstatistics``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.kernels.declare import kernel
from chimbuko.core.kernels.merge import add_value


@kernel
def add_values(
    into: npt.NDArray[np.float64], rows: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
) -> None:
    """Add ``values``, float64[n], one after the other, to the moments ``into[rows[i]]``, float64[rows, 7]."""
    for i in range(len(rows)):
        add_value(into[rows[i]], values[i])


NONE = -1
_SPREAD = 2654435761
"""Hash factor, 2^32 divided by the golden ratio: consecutive keys land far apart."""
_FOLDED = (1 << 31) - 1
"""Largest number whose product with ``_SPREAD`` is still an int64."""


@kernel
def find_rows(
    wanted: npt.NDArray[np.int64],
    slots: npt.NDArray[np.int32],
    keys: npt.NDArray[np.int64],
    count: int,
    most: int,
    rows: npt.NDArray[np.int64],
) -> int:
    """Write the row of each of the keys ``wanted``, int64[n], into ``rows``, int64[n]; new keys get the next
    rows.

    Parameters
    ----------
    slots
        int32[a power of two], more than twice as many as there can be keys: row, or NONE.
    keys
        Key of each row, int64[rows], with room for new ones.
    count, most
        Number of rows in use, and its maximum: further keys get NONE. The new number is returned.
    """
    mask = len(slots) - 1
    for at in range(len(wanted)):
        key = wanted[at]
        # The middle bits of the product depend on all those of the key that differ.
        folded = (key ^ (key >> 26) * 31 ^ (key >> 52)) & _FOLDED
        slot = ((folded * _SPREAD) >> 16) & mask
        while slots[slot] != NONE and keys[slots[slot]] != key:
            slot = (slot + 1) & mask
        if slots[slot] == NONE and count < most:
            slots[slot] = count
            keys[count] = key
            count += 1
        rows[at] = slots[slot]
    return count
