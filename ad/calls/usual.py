"""What comparable calls take: those of the same function on the same call path of the same rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.ad.kernels.callpaths import FIRST, expect
from chimbuko.core.arrays import Float64Array, Rows, as_table
from chimbuko.core.calls.pathtable import MOST_PATHS

CLEARLY = 3.0
"""What is usual on a path counts where it differs by this factor from what is usual of the function."""

USUAL = np.dtype([("level", np.float64), ("calls", np.int64)], align=True)
"""Logarithm of the usual runtime, as ``kernels.usual.level_of`` gives it, and how many calls there were."""


class UsualRuntimes:
    """What the calls of one stream usually take, path by path; ``CallPaths.read`` teaches it.

    Memory is 80 bytes a path, for as many paths as have a row of their own; all others have no usual runtime.
    """

    def __init__(self, use_inclusive: bool, most_paths: int = MOST_PATHS) -> None:
        self.use_inclusive = use_inclusive
        """Whether runtimes are those with the calls inside."""
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

    def expected_us(self, calls: Rows, of_function_us: Float64Array) -> Float64Array:
        """What was expected of some calls, f8[n].

        Parameters
        ----------
        calls
            CALL[n].
        of_function_us
            What is expected of their functions, f8[n]: it counts where too few calls on the path are known,
            or what they take does not clearly differ.
        """
        expected_us = np.array(of_function_us)
        expect(calls, self.rows, CLEARLY, expected_us)
        return expected_us
