"""In which steps of a stream calls of functions were flagged, until its agent has taken them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import Int64Array, Rows
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS


@dataclass
class _Sums:
    """Of one function; fields as in ``FLAGGED_STEPS``."""

    steps: int
    squares: int
    cubes: int
    fourths: int
    fewest: int
    most: int

    def add(self, other: _Sums) -> None:
        self.steps += other.steps
        self.squares += other.squares
        self.cubes += other.cubes
        self.fourths += other.fourths
        self.fewest = min(self.fewest, other.fewest)
        self.most = max(self.most, other.most)


class FlaggedSteps:
    """Sums over the steps of a stream; functions are its timers."""

    def __init__(self) -> None:
        self._not_taken: dict[int, _Sums] = {}
        self._fresh: dict[int, _Sums] = {}
        self._generation = 0

    def note(self, timers: Int64Array) -> None:
        """Timers of the calls that were flagged in a step, i8[calls]."""
        # They are few: as arrays, each step would take longer than to judge its calls.
        for timer, calls in Counter(timers.tolist()).items():
            _add(self._fresh, timer, _Sums(1, calls**2, calls**3, calls**4, calls, calls))

    @property
    def most(self) -> int:
        """So many rows at most are not taken."""
        return len(self._not_taken) + len(self._fresh)

    def not_taken(self, generation: int) -> Rows:
        """``FLAGGED_STEPS`` rows of all that was not taken yet, ascending.

        ``generation`` says whether what was reported the last time is still there, or was taken.
        """
        if generation != self._generation:
            self._generation = generation
            self._not_taken = {}
        for timer, sums in self._fresh.items():
            _add(self._not_taken, timer, sums)
        self._fresh = {}
        rows = [
            (timer, sums.steps, sums.squares, sums.cubes, sums.fourths, sums.fewest, sums.most)
            for timer, sums in sorted(self._not_taken.items(), key=lambda item: item[0])
        ]
        return np.array(rows, FLAGGED_STEPS)


def _add(sums: dict[int, _Sums], timer: int, more: _Sums) -> None:
    if timer in sums:
        sums[timer].add(more)
    else:
        sums[timer] = more
