"""Usual runtimes of comparable calls: those of the same function on the same call path of the same rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.ad.kernels.callpaths import FIRST, expect
from chimbuko.core.arrays import Float64Array, Int64Array, Rows, as_table
from chimbuko.core.calls.pathtable import MOST_PATHS
from chimbuko.core.calls.record import CLEARLY

USUAL = np.dtype([("level", np.float64), ("calls", np.int64)], align=True)
"""Logarithm of the usual runtime, as ``kernels.callpaths.level_of`` gives it, and the number of calls."""


class UsualRuntimes:
    """Usual runtimes of the calls of one stream, path by path; ``CallPaths.read`` updates them.

    Memory is 80 bytes a path, for as many paths as have a row of their own; all others have no usual runtime.
    """

    def __init__(self, use_inclusive: bool, most_paths: int = MOST_PATHS) -> None:
        self.use_inclusive = use_inclusive
        """Whether runtimes are inclusive."""
        # Memory that is 0 is not in use until it is written.
        self.rows = as_table(np.zeros(most_paths, USUAL))
        self.first = np.zeros((most_paths, FIRST))
        """Levels of the first calls of each path."""

    def __getstate__(self) -> dict[str, Any]:
        used = self.rows["calls"].nonzero()[0]
        return {
            "use_inclusive": self.use_inclusive,
            "most_paths": len(self.rows),
            "used": (used, self.rows[used], self.first[used]),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["use_inclusive"], state["most_paths"])  # type: ignore[misc]
        used, usual, first = state["used"]
        self.rows[used], self.first[used] = usual, first

    def forget(self, paths: Int64Array) -> None:
        """Forget what was usual on these paths, given by their rows: it is learned anew."""
        self.rows["calls"][paths[paths < len(self.rows)]] = 0

    def expected_us(self, calls: Rows, of_function_us: Float64Array) -> Float64Array:
        """Return the expected runtime of each call in µs, float64[n].

        Parameters
        ----------
        calls
            ``CALL`` rows.
        of_function_us
            Expected runtimes of the calls' functions, float64[n]. They count where too few calls on the path
            are known, or their runtimes do not clearly differ.
        """
        expected_us = np.array(of_function_us)
        expect(calls, self.rows, CLEARLY, expected_us)
        return expected_us
