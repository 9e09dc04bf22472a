"""Moment by two clocks."""

from __future__ import annotations

import time
from typing import NamedTuple


class Moment(NamedTuple):
    """Moment by the clock that tells how long something takes, and by that of the day."""

    clock_s: float
    """Time in seconds on a clock that never goes back; for lengths of time only."""
    epoch_us: int
    """Time in µs since the epoch, by which nodes say when something was."""

    @classmethod
    def now(cls) -> Moment:
        """Return the present moment."""
        return cls(time.monotonic(), time.time_ns() // 1000)
