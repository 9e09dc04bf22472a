"""Finding rows by key, compiled: open addressing, so that a look-up is one or two memory accesses.

Counting steps of many ranks at once, compiled.
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
    """Add ``values`` f8[n], one after the other, to the moments ``into[rows[i]]``, f8[rows, 7]."""
    for i in range(len(rows)):
        add_value(into[rows[i]], values[i])


NONE = -1
_SPREAD = 2654435761
"""2^32 divided by the golden ratio: consecutive keys land far apart."""
_FOLDED = (1 << 31) - 1
"""Times ``_SPREAD`` it is still an int64."""


@kernel
def find_rows(
    wanted: npt.NDArray[np.int64],
    slots: npt.NDArray[np.int32],
    keys: npt.NDArray[np.int64],
    count: int,
    most: int,
    rows: npt.NDArray[np.int64],
) -> int:
    """Row of each of the keys ``wanted`` i8[n], into ``rows`` i8[n]; new keys get the next rows.

    Parameters
    ----------
    slots
        i4[a power of two], more than twice as many as there can be keys: row, or NONE.
    keys
        i8[rows]: key of each row; room for those that are new.
    count, most
        Number of rows in use, and how many there may be: further keys get NONE. The new number is returned.
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
