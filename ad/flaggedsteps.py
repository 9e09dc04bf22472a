"""In which steps of a stream calls of functions were flagged, until its agent has taken them."""

from __future__ import annotations

from chimbuko.flaggedsteps import empty, merged, of_step
from chimbuko.tables import Int64Array
from chimbuko.views import Rows


class FlaggedSteps:
    """Sums over the steps of a stream; functions are its timers."""

    def __init__(self) -> None:
        self._told = empty(0)
        self._fresh = empty(0)
        self._generation = 0

    def note(self, timers: Int64Array) -> None:
        """Timers of the calls that were flagged in a step, i8[calls]."""
        if len(timers):
            self._fresh = merged(self._fresh, of_step(timers))

    @property
    def most(self) -> int:
        """So many rows at most are not taken."""
        return len(self._told) + len(self._fresh)

    def not_taken(self, generation: int) -> Rows:
        """``FLAGGED_STEPS`` rows of all that was not taken yet.

        ``generation`` tells whether what was told the last time is still there, or was taken.
        """
        if generation != self._generation:
            self._generation = generation
            self._told = empty(0)
        if len(self._fresh):
            self._told = merged(self._told, self._fresh)
            self._fresh = empty(0)
        return self._told
