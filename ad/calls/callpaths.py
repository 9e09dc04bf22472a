"""The call paths of one stream, and their way from its process to its agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.ad.calls.kernels.callpaths import follow_paths
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.calls.usual import UsualRuntimes
from chimbuko.arrays import Rows
from chimbuko.calls.callpaths import MOST_PATHS, PathTable

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

    def read(self, stacks: CallStacks, usual: UsualRuntimes) -> None:
        """Add the calls that ended in the step whose ``stacks`` were built, also to what is ``usual``."""
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
            usual.use_inclusive,
            usual.rows,
            usual.first,
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
