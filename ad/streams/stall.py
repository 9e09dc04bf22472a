"""When a stream counts as silent: it gives no step for much longer than it used to. No clock."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_S = 5.0
LEAST_PERIODS = 5
TIMES_LONGEST = 3
"""Steps end where the program allows it, so they are uneven: a rank that waits for others, or writes a
checkpoint, gives none meanwhile, and will do so again."""


@dataclass
class Rhythm:
    """The steps of one stream, as they come.

    Parameters
    ----------
    period_s
        Usual time between two steps.
    """

    period_s: float
    steps: int = 0
    quiet_s: float = 0.0
    """Since the last step."""
    longest_s: float = 0.0
    """Longest time between two steps so far."""

    def note(self, steps: int, seconds: float) -> None:
        """``seconds`` have gone by, during which the stream was waited for; it has given ``steps`` in all."""
        self.quiet_s += seconds
        if steps != self.steps:
            if self.steps:
                self.longest_s = max(self.longest_s, self.quiet_s)
            self.steps = steps
            self.quiet_s = 0.0

    @property
    def is_silent(self) -> bool:
        """Whether it is quiet beyond all that it has been before. A stream that never spoke is not silent."""
        limit_s = max(LEAST_S, LEAST_PERIODS * self.period_s, TIMES_LONGEST * self.longest_s)
        return self.steps > 0 and self.quiet_s > limit_s
