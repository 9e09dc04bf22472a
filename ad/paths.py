"""The call paths of one stream, and their way from its process to its agent."""

from __future__ import annotations

import mmap

import numpy as np

from chimbuko.ad.kernels.paths import follow_paths
from chimbuko.ad.room import SparseFile
from chimbuko.ad.stacks import CallStacks
from chimbuko.kernels.paths import merge_same
from chimbuko.paths import MOST_PATHS, PATH, PathTable, Rows
from chimbuko.tables import Int64Array

MOST_DEPTH = 64
"""Deeper calls are on no path of their own: a recursion would have one for each level."""


class CallPaths:
    """Adds up the calls of one stream by call path.

    Parameters
    ----------
    most_paths, most_depth
        Calls on further paths, or deeper ones, are added up together.
    """

    def __init__(self, most_paths: int = MOST_PATHS, most_depth: int = MOST_DEPTH) -> None:
        self._table = PathTable(most_paths)
        self._most_depth = most_depth

    def read(self, stacks: CallStacks) -> None:
        """Add the calls that ended in the step whose ``stacks`` were built."""
        table = self._table
        follow_paths(
            stacks.calls,
            stacks.carried,
            stacks.count,
            stacks.is_named,
            self._most_depth,
            table.all,
            table.slots,
            table.count,
        )

    @property
    def count(self) -> int:
        """How many paths there are."""
        return len(self._table.rows)

    def hand_out(self) -> Rows:
        """``PATH`` rows of all paths, with the calls since the last time; functions are timer ids."""
        rows = self._table.rows.copy()
        self._table.forget_calls()
        return rows


class PathOutbox:
    """Call paths of one stream in a file that its process and its agent map; they have a lock for it.

    Calls are added up in it until they are taken.
    """

    SIZE_BYTES = 8 + MOST_PATHS * PATH.itemsize

    def __init__(self, memory: mmap.mmap, at: int) -> None:
        self._at = at
        self._count: Int64Array = np.frombuffer(memory, np.int64, 1, at)
        self._rows = np.frombuffer(memory, PATH, MOST_PATHS, at + 8).view(np.recarray)

    @property
    def count(self) -> int:
        """How many paths have a row."""
        return int(self._count[0])

    def allocate(self, file: SparseFile, count: int) -> None:
        """Make sure of the room for so many rows; raises ``OSError`` where there is none."""
        file.allocate(self._at, 8 + count * PATH.itemsize)

    def put(self, rows: Rows) -> None:
        """Add calls of the paths that are there already, and of new ones behind them."""
        # A process that died while it filled this copy may have left rows behind those in use.
        self._rows[self._count[0] : len(rows)] = np.zeros(1, PATH)
        merge_same(rows.view(np.recarray), self._rows)
        self._count[0] = len(rows)

    def copy_from(self, other: PathOutbox) -> None:
        """Become a copy of the other one."""
        count = int(other._count[0])
        self._rows[:count] = other._rows[:count]
        self._count[0] = count

    def look(self) -> Rows:
        """A copy of what is there."""
        return self._rows[: self._count[0]].copy()

    def clear(self) -> None:
        """The calls were taken; the paths keep their rows."""
        self._rows["calls"][: self._count[0]] = 0
