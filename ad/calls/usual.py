"""What comparable calls take: those of the same function on the same call path of the same rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.ad.calls.kernels.usual import FIRST, learn_usual, runtime_of
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.arrays import Float64Array, Rows, as_table
from chimbuko.calls.callpaths import MOST_PATHS

CLEARLY = 3.0
"""What is usual on a path counts where it differs by this factor from what is usual of the function."""

USUAL = np.dtype([("level", np.float64), ("calls", np.int64)], align=True)
"""Logarithm of the usual runtime, as ``kernels.usual.level_of`` gives it, and how many calls there were."""


class UsualRuntimes:
    """Learns what the calls of one stream usually take, path by path.

    Memory is 80 bytes a path, for as many paths as have a row of their own; all others have no usual runtime.
    """

    def __init__(self, use_inclusive: bool, most_paths: int = MOST_PATHS) -> None:
        self._use_inclusive = use_inclusive
        # Memory that is 0 is not in use until it is written.
        self._usual = as_table(np.zeros(most_paths, USUAL))
        self._first = np.zeros((most_paths, FIRST))

    def __getstate__(self) -> dict[str, Any]:
        used = self._usual["calls"].nonzero()[0]
        return {
            "use_inclusive": self._use_inclusive,
            "most_paths": len(self._usual),
            "used": (used, self._usual[used], self._first[used]),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["use_inclusive"], state["most_paths"])  # type: ignore[misc]
        used, usual, first = state["used"]
        self._usual[used], self._first[used] = usual, first

    def learn(self, stacks: CallStacks) -> None:
        """Add the calls that ended in the step whose ``stacks`` were built, and whose paths are known."""
        learn_usual(
            stacks.calls, stacks.count, stacks.is_named, self._use_inclusive, self._usual, self._first
        )

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
        usual = self._usual[calls["path"]]
        found = of_function_us.copy()
        # Of a step they are few: one by one, as whole arrays would take longer.
        known = zip(usual["calls"].tolist(), usual["level"].tolist(), of_function_us.tolist(), strict=True)
        for at, (seen, level, function_us) in enumerate(known):
            if seen >= FIRST:
                own_us = runtime_of(level)
                if not function_us / CLEARLY < own_us < function_us * CLEARLY:
                    found[at] = own_us
        return found
