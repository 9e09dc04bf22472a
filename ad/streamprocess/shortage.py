"""What the process of a stream has to go without while there is no room in ``$TMPDIR``."""

from __future__ import annotations

import time

from chimbuko.ad.handoff.shortfalls import Part, Shortfall, ShortfallCells
from chimbuko.core.calls.record import StreamHealth

WORDS = {
    Part.RECORDER: "flight recorder; 'chimbuko recall' finds nothing",
    Part.OPEN_CALLS: "list of open calls; overdue ones are not seen",
    Part.CHECKPOINT: "checkpoint; a reader that takes over begins behind a gap",
    Part.FINDINGS: "findings; they wait in memory, the most severe if they are many",
    Part.NAMES: "names of functions; steps wait until there is",
    Part.STATISTICS: "statistics; steps wait until there is",
    Part.JOURNAL: "copy of its last statistics; killed now, it loses them",
    Part.MODEL: "model of new functions; they are judged by the newest calls of the rank itself",
}
"""What each part is, and what it means to be without."""


class Shortage:
    """Keeps account of what is missing, for the stream's agent: that says it.

    Parameters
    ----------
    cells
        Where its agent hears of it.
    """

    def __init__(self, cells: ShortfallCells) -> None:
        self._cells = cells
        self._without: set[Part] = set()
        self._blocked_at_s: float | None = None

    def note(self, part: Part) -> None:
        """There is no room for a part."""
        self._without.add(part)

    def report(self, health: StreamHealth) -> None:
        """Report to the agent how the stream fares, if anything is or was missing."""
        if self._without:
            self._cells.report(Shortfall(health, sorted(self._without)))

    def block(self, part: Part) -> None:
        """Nothing can be committed, as there is no room for a part."""
        self.note(part)
        if self._blocked_at_s is None:
            self._blocked_at_s = time.monotonic()

    def unblock(self) -> None:
        """There is room for a commit."""
        self._blocked_at_s = None

    @property
    def is_blocking(self) -> bool:
        """Whether nothing can be committed."""
        return self._blocked_at_s is not None

    @property
    def blocked_s(self) -> float:
        """For how long nothing could be committed."""
        return 0.0 if self._blocked_at_s is None else time.monotonic() - self._blocked_at_s
