"""The call paths of one stream, and their way from its process to its agent."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from chimbuko.ad.calls.kernels.callpaths import follow_paths
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.handoff.sparsefile import SparseFile
from chimbuko.arrays import as_table, copied
from chimbuko.calls.callpaths import MOST_PATHS, PATH, PathTable, Rows
from chimbuko.kernels.paths import add_to_copy
from chimbuko.statistics.schema import Int64Array

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
        self._handed_out = self._table.all[:0]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_handed_out": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_handed_out": state["_table"].all[:0]})

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
        """``PATH`` rows of all paths, with the calls since the last time; functions are timer ids.

        They are valid until the next time.
        """
        rows = self._table.rows
        # Memory is used again: 4,096 paths are 330 kB, of which fresh pages would take most of the time.
        if len(self._handed_out) < len(rows):
            self._handed_out = self._table.all.copy()
        handed_out = self._handed_out[: len(rows)]
        # As bytes: column by column it takes three times as long.
        handed_out.view(np.uint8)[:] = rows.view(np.uint8)
        self._table.forget_calls()
        return handed_out


class PathOutbox:
    """Call paths of one stream in a file that its process and its agent map; they have a lock for it.

    Calls are added up in it until they are taken.
    """

    SIZE_BYTES = 8 + MOST_PATHS * PATH.itemsize

    def __init__(self, memory: mmap.mmap, at: int) -> None:
        self._at = at
        self._count: Int64Array = np.frombuffer(memory, np.int64, 1, at)
        self._rows = as_table(np.frombuffer(memory, PATH, MOST_PATHS, at + 8))

    @property
    def count(self) -> int:
        """How many paths have a row."""
        return int(self._count[0])

    def allocate(self, file: SparseFile, count: int) -> None:
        """Make sure of the room for so many rows; raises ``OSError`` where there is none."""
        file.allocate(self._at, 8 + count * PATH.itemsize)

    def put(self, before: PathOutbox, rows: Rows) -> None:
        """Become what another copy is, with more calls of its paths, and of new ones behind them."""
        add_to_copy(before._rows, before.count, rows, self._rows)
        self._count[0] = len(rows)

    def look(self) -> Rows:
        """A copy of what is there."""
        return copied(self._rows[: self._count[0]])

    def clear(self) -> None:
        """The calls were taken; the paths keep their rows."""
        self._rows["calls"][: self._count[0]] = 0
