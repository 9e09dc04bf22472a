"""Pace of fast looks at ranks, and of those at other processes, by what they cost. No I/O, no clock."""

from __future__ import annotations

from enum import Enum

FAST_S = 0.02
FAST_SHARE, AGAIN_SHARE = 0.0015, 0.0005
"""Shares of a core that fast samples of ranks, and of those who took their cores last, may take. Where a look
costs more, looks are further apart. Together they are 2 ms in a second.
"""
SLOWEST_S = 0.25
IDLE_S = 0.25
"""While no rank runs."""
OTHERS_S, OTHERS_SOONEST_S, OTHERS_SHARE = 10.0, 0.1, 0.005
"""Other processes are looked for so often, and where a rank waits for its core; as far as that keeps within a
share of a core."""
SPARED_US = 1_000_000
"""Looks at others that were not taken in so long a time may follow each other at once: a short burst is over
before the next one would be due."""


class Waits(Enum):
    """State of the ranks' waits for their cores."""

    NONE = "none"
    """No rank has waited since all other processes were looked at."""
    NOW = "now"
    """A rank waited before the last look."""
    OVER = "over"
    """A rank has waited, but not before the last look, and all others have not been looked at since."""


class Look(Enum):
    """Instruction: which other processes to look at."""

    NOBODY = "nobody"
    ALL = "all"
    RUNNING = "running"
    """Only processes that ran at the last look."""


class LookPace:
    """Pace of the looks at ranks, and at other processes with them.

    ::

                 waited              did not wait
        NONE ──────────────▶ NOW ────────────────────▶ OVER
          ▲                   ▲         waited          │ │
          │                   └─────────────────────────┘ │
          └───────────────────────────────────────────────┘ all others looked at

    Where nobody waits, all others are due every ``OTHERS_S``; else as soon as their cost allows, and those
    that ran last are, too. Who takes the core is looked at once more after the wait, and where a rank waits
    still, all others are due again.
    """

    def __init__(self) -> None:
        self.waits = Waits.NONE
        self._fast_s = FAST_S
        self._is_running = False
        self._all_due_us = self._all_soonest_us = 0
        """Times when all others are due, where nobody waits and where somebody has waited, in µs."""
        self._running_soonest_us = 0

    @property
    def next_s(self) -> float:
        """Time in seconds until the next look at ranks."""
        return self._fast_s if self._is_running else IDLE_S

    def note_running(self, is_running: bool) -> None:
        """Note whether ranks ran in the last period."""
        self._is_running = is_running

    def ranks_looked(self, now_us: int, has_waited: bool, cost_us: int) -> Look:
        """Note a look at ranks, with its cost, and whether one of them has waited; return who is next."""
        wanted_s = min(max(cost_us / 1e6 / FAST_SHARE, FAST_S), SLOWEST_S)
        self._fast_s += 0.1 * (wanted_s - self._fast_s)
        before = self.waits
        if has_waited:
            self.waits = Waits.NOW
        elif before is Waits.NOW:
            self.waits = Waits.OVER
        if now_us >= (self._all_due_us if self.waits is Waits.NONE else self._all_soonest_us):
            return Look.ALL
        if Waits.NOW in (before, self.waits) and now_us >= self._running_soonest_us:
            return Look.RUNNING
        return Look.NOBODY

    def all_looked(self, now_us: int, cost_us: int) -> None:
        """Note a look at all others, with its cost."""
        if self.waits is Waits.OVER:
            self.waits = Waits.NONE
        pause_us = cost_us / OTHERS_SHARE
        self._all_due_us = now_us + int(max(OTHERS_S * 1e6, pause_us))
        self._all_soonest_us = max(
            now_us + int(OTHERS_SOONEST_S * 1e6), _due_us(self._all_soonest_us, now_us, pause_us)
        )

    def running_looked(self, now_us: int, cost_us: int) -> None:
        """Note a look at those that ran last, with its cost."""
        self._running_soonest_us = _due_us(self._running_soonest_us, now_us, cost_us / AGAIN_SHARE)

    def validate_state(self) -> None:
        """Raise AssertionError where the state is impossible."""
        assert FAST_S * 0.999 <= self._fast_s <= SLOWEST_S * 1.001
        assert self._all_soonest_us <= self._all_due_us


def _due_us(was_due_us: int, now_us: int, pause_us: float) -> int:
    """Return the time of the next look, a pause after this one."""
    return max(was_due_us, now_us - SPARED_US) + int(pause_us)
