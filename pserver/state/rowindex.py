"""Rows by key: a number for each (program, rank, function) or (program, rank, destination) that occurs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Int64Array
from chimbuko.core.kernels.rowindex import NONE, find_rows

_BITS = 26
"""Of a rank, and of what goes with it."""


class RowIndex:
    """Gives keys consecutive row numbers, in order of their first mention.

    Parameters
    ----------
    most
        How many rows there may be; further keys have none.
    """

    def __init__(self, most: int = 1 << 30) -> None:
        self._most = most
        self._slots = np.full(64, NONE, np.int32)
        self._keys = np.empty(31, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def rows(self, programs: npt.ArrayLike, ranks: npt.ArrayLike, others: npt.ArrayLike) -> Int64Array:
        """Row of each key, i8[n]; -1 where there is no room for it. ``others`` may be -1."""
        wanted = np.asarray(programs, np.int64) << (2 * _BITS)
        wanted = wanted | (np.asarray(ranks, np.int64) << _BITS)
        wanted = np.atleast_1d(wanted | (np.asarray(others, np.int64) + 1))
        self._reserve(min(self._count + len(wanted), self._most))
        found = np.empty(len(wanted), np.int64)
        self._count = find_rows(wanted, self._slots, self._keys, self._count, self._most, found)
        return found

    def _reserve(self, count: int) -> None:
        if 2 * count < len(self._slots):
            return
        held = self._keys[: self._count].copy()
        size = 1 << (4 * count - 1).bit_length()
        self._slots = np.full(size, NONE, np.int32)
        self._keys = np.empty(size // 2, np.int64)
        find_rows(held, self._slots, self._keys, 0, self._most, np.empty(len(held), np.int64))
