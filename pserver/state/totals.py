"""Totals of rows that are reported by rank and another key: a sparse matrix per program. Pure.

``RowIndex`` gives a row number to each (program, rank, function) or (program, rank, destination) that occurs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Int64Array, Rows, grown
from chimbuko.core.kernels.rowindex import NONE, find_rows
from chimbuko.runtime.protocol.telemetry import OTHERS

_BITS = 26
"""Number of bits of a rank, and of the other key, in a combined key."""


class RowIndex:
    """Index of keys: consecutive row numbers, in order of the keys' first mention.

    Parameters
    ----------
    most
        Maximum number of rows; further keys have none.
    """

    def __init__(self, most: int = 1 << 30) -> None:
        self._most = most
        self._slots = np.full(64, NONE, np.int32)
        self._keys = np.empty(31, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def rows(self, programs: npt.ArrayLike, ranks: npt.ArrayLike, others: npt.ArrayLike) -> Int64Array:
        """Return the row of each key, int64[n]; -1 if there is no room for it. ``others`` may be -1."""
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


class Totals:
    """Totals of rows with the same program, rank and key.

    Parameters
    ----------
    dtype
        Type of the rows.
    key
        Column that has a row of its own for each value, beside program and rank. Rows for which there is no
        room are added up under ``OTHERS``.
    added
        Columns with amounts, of which the first one counts events.
    most
        Maximum number of rows of their own.
    """

    def __init__(self, dtype: np.dtype[np.void], key: str, added: Sequence[str], most: int) -> None:
        self._dtype = dtype
        self._key = key
        self._own = _Rows(dtype, key, added, most)
        self._others = _Rows(dtype, key, added)
        self._waiting: list[bytes] = []

    def take(self, rows: bytes) -> None:
        """Add rows to the totals."""
        self._waiting.append(rows)

    def grown_by(self, factor: float) -> Rows:
        """Return the totals that have grown by this factor since they were reported."""
        self._settle()
        return np.concatenate([self._own.grown_by(factor), self._others.grown_by(factor)])

    def everything(self) -> Rows:
        """Return all totals."""
        self._settle()
        return np.concatenate([self._own.rows, self._others.rows])

    def restore(self, everything: Rows) -> None:
        """Restore all totals, which count as reported, into a new object."""
        is_others = everything[self._key] == OTHERS
        self._own.add(everything[~is_others])
        self._others.add(everything[is_others])
        self.grown_by(1.0)

    def _settle(self) -> None:
        """Add the rows that wait, all at once, since each look at an array costs more than adding a row."""
        if not self._waiting:
            return
        rows = np.frombuffer(b"".join(self._waiting), self._dtype)
        self._waiting.clear()
        is_others = rows[self._key] == OTHERS
        rest = self._own.add(rows[~is_others])
        rest[self._key] = OTHERS
        self._others.add(rest)
        self._others.add(rows[is_others])


class _Rows:
    """One row of totals for each program, rank and key."""

    def __init__(self, dtype: np.dtype[np.void], key: str, added: Sequence[str], most: int = 1 << 30) -> None:
        self._keys = "program", "rank", key
        self._added = added
        self._index = RowIndex(most)
        self._rows = np.zeros(0, dtype)
        self._reported = np.zeros(0, np.int64)
        """First of the columns with amounts when each row was last reported, int64[rows]."""

    @property
    def rows(self) -> Rows:
        return self._rows[: len(self._index)]

    def add(self, rows: Rows) -> Rows:
        """Add rows; return a copy of those for which there is no room."""
        at = self._index.rows(*(rows[name] for name in self._keys))
        self._rows = grown(self._rows, len(self._index))
        has_room = at != NONE
        added, at = rows[has_room], at[has_room]
        for name in self._keys:
            self._rows[name][at] = added[name]
        for name in self._added:
            np.add.at(self._rows[name], at, added[name])
        rest: Rows = rows[~has_room]
        return rest

    def grown_by(self, factor: float) -> Rows:
        self._reported = grown(self._reported, len(self._rows))
        rows, counted = self.rows, self._added[0]
        at = np.flatnonzero(rows[counted] > factor * self._reported[: len(rows)])
        self._reported[at] = rows[counted][at]
        grown_rows: Rows = rows[at]
        return grown_rows
