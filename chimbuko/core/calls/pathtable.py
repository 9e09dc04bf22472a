"""Call paths: the distinct call stacks of one program, as a tree, with the runtimes of the calls on each."""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.core.arrays import BoolArray, Int64Array, Rows, UInt64Array, as_table
from chimbuko.core.kernels import paths as kernels
from chimbuko.core.kernels.paths import NONE, OTHERS

PATH = np.dtype(
    [
        ("parent", np.int32),  # row of the path without its innermost function, or NONE
        ("function", np.int32),  # the innermost; NONE for the row of the others
        ("calls", np.int64),  # without calls the following columns mean nothing
        ("exclusive_us", np.float64),
        ("exclusive_squares", np.float64),
        ("exclusive_minimum_us", np.float64),
        ("exclusive_maximum_us", np.float64),
        ("inclusive_us", np.float64),
        ("inclusive_squares", np.float64),
        ("inclusive_minimum_us", np.float64),
        ("inclusive_maximum_us", np.float64),
        ("begun", np.int64),  # calls that have begun
        ("spent_us", np.float64),  # exclusive time of these so far
        ("looked_us", np.float64),  # time for which looks at their threads stand that found them innermost
        ("asleep_us", np.float64),  # part of it for which these threads were asleep
    ],
    align=True,
)
"""One call path: number of calls that count for the detector, and of their runtimes sum, sum of squares (in
µs²), minimum and maximum; then all calls, also first and doubtful ones and those that are open, with the time
that was spent in them, and how much of that was slept, by looks at their threads.

Sums of whole numbers are exact up to 2^53, in whatever order they are added; beyond that spreads of less than
1e-8 of the runtime are lost. A path is ``OTHERS`` or stands behind its parent. Functions have numbers of
whoever made the table.
"""

PATH_TIME = np.dtype(
    [
        ("parent", np.int32),  # as in ``PATH``
        ("function", np.int32),
        ("calls", np.int64),
        ("exclusive_us", np.float64),
    ],
    align=True,
)
"""Time that was spent in all calls of one call path, also in open ones; paths without calls took none."""

THREAD_PATH_TIME = np.dtype(
    [
        ("thread", np.int32),  # TAU's id
        ("path", np.int32),  # row of the path among ``PATH_TIME`` rows
        ("calls", np.int64),
        ("exclusive_us", np.float64),
    ],
    align=True,
)
"""Time in the calls of one thread on one call path that have ended, and are not doubtful."""

MOST_PATHS = 1 << 12
"""Maximum number of paths of a stream, and of a program: 430 kB stay in a cache. With 16,384 a made-up trace
that fills them took a seventh longer to analyse.
"""
OTHER_PATHS = "(other call paths)"
"""Name that stands for the functions of ``OTHERS``."""


class PathTable:
    """Calls added up by call path.

    Parameters
    ----------
    most
        Maximum number of paths with a row of their own, a power of two.
    """

    def __init__(self, most: int = MOST_PATHS) -> None:
        # Memory that is 0 is not in use until it is written.
        self.all = as_table(np.zeros(most, PATH))
        """``PATH[most]`` rows, including those that are not in use."""
        self.slots: UInt64Array = np.zeros(2 * most, np.uint64)
        self.count: Int64Array = np.ones(1, np.int64)
        """Number of rows in use, int64[1]. All arrays are as the kernels take them."""
        self.all[OTHERS]["parent"] = self.all[OTHERS]["function"] = NONE

    def __getstate__(self) -> dict[str, Any]:
        rows = self.rows
        used = has_news(rows).nonzero()[0]
        return {
            "most": len(self.all),
            "parents": rows["parent"],
            "functions": rows["function"],
            "used": (used, rows[used]),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["most"])  # type: ignore[misc]
        reported = np.zeros(len(state["parents"]), PATH)
        reported["parent"], reported["function"], reported["calls"] = state["parents"], state["functions"], 1
        # Paths in the same order get the same rows.
        self.add(reported)
        self.forget_calls()
        used, rows = state["used"]
        self.all[used] = rows

    @property
    def rows(self) -> Rows:
        """``PATH`` rows in use, the first of which is ``OTHERS``."""
        return self.all[: self.count[0]]

    def add(self, reported: Rows) -> None:
        """Add the calls of another table's rows, whose functions have the same numbers.

        Raises
        ------
        ValueError
            A parent does not stand before its child.
        """
        if (reported["parent"][1:] >= np.arange(1, len(reported))).any() or (reported["parent"] < NONE).any():
            raise ValueError("call paths whose parents do not stand before them")
        # A copy: of an array that cannot be written to, kernels would be compiled once more.
        kernels.merge_paths(as_table(reported.copy()), self.all, self.slots, self.count)

    def forget_calls(self) -> None:
        """Forget the calls of all paths, and their time; the paths keep their rows."""
        forget_calls(self.rows)


def forget_calls(rows: Rows) -> None:
    """Set the calls and the time of ``PATH`` rows to 0; parents and functions stay."""
    for name in ("calls", "begun", "spent_us", "looked_us", "asleep_us"):
        rows[name] = 0


def has_news(rows: Rows) -> BoolArray:
    """Return which ``PATH`` rows have calls, or time that was spent in calls of earlier rows."""
    is_empty: BoolArray = np.ones(len(rows), np.bool_)
    for name in ("calls", "begun", "spent_us", "looked_us"):
        is_empty &= rows[name] == 0
    return ~is_empty
