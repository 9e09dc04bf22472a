"""When a process of ours that ended early is started again: values in, decision out, and no clock."""

from __future__ import annotations

from dataclasses import dataclass

MOST_IN_A_ROW = 10
STEADY_S = 60.0
"""What has lasted so long since it was started again begins anew, without a pause."""
LONGEST_PAUSE_S = 4.0


@dataclass(frozen=True)
class Revivals:
    """How often, and when, a process was started again. Times are those of any clock that never goes back.

    What ends soon after its start may end of its surroundings, as where it finds no memory: beside the
    application it is started again after pauses, each twice as long as the one before.
    """

    in_a_row: int = 0
    """One after the other, none of which has lasted."""
    last_s: float = 0.0

    def is_due(self, now_s: float) -> bool:
        """Whether it may be started again by now, where it is not running."""
        return now_s >= self.last_s + pause_s(self._in_a_row_at(now_s))

    def is_hopeless(self, now_s: float) -> bool:
        """Whether it ended so often soon after its start that another one would, too."""
        return self._in_a_row_at(now_s) >= MOST_IN_A_ROW

    def started(self, now_s: float) -> Revivals:
        """What stands after it was started again."""
        return Revivals(self._in_a_row_at(now_s) + 1, now_s)

    def _in_a_row_at(self, now_s: float) -> int:
        return self.in_a_row if now_s < self.last_s + STEADY_S else 0


def pause_s(in_a_row: int) -> float:
    """From its last start until it may be started again: at first none, then 1, 2, 4 s."""
    return min(0.5 * (1 << in_a_row), LONGEST_PAUSE_S) if in_a_row else 0.0
