"""Slow, obvious twin of ``chimbuko.ad.calls.selection``: one function after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Call = tuple[int, int, bool]
"""Function, severity in µs, whether it is abnormal."""


@dataclass
class SlowLimit:
    """Which calls of a stream are too many of their function."""

    most_per_us: float
    burst: int
    room: dict[int, float] = field(default_factory=dict)
    at_us: dict[int, int] = field(default_factory=dict)
    highest_us: dict[int, int] = field(default_factory=dict)

    def left_out(self, calls: list[Call], now_us: int, carried: int, least_us: int = 0) -> list[int]:
        """Of the calls of a step, of which the first ``carried`` are of earlier ones."""
        left_out: list[int] = []
        for function in {function for function, *_ in calls}:
            rows = [
                row for row, call in enumerate(calls) if call[0] == function and call[2] and row >= carried
            ]
            if not rows:
                continue
            rows.sort(key=lambda row: (-calls[row][1], row))
            passed_us = max(now_us - self.at_us.get(function, 0), 0)
            room = min(self.room.get(function, self.burst) + passed_us * self.most_per_us, self.burst)
            worst_us, highest_us = calls[rows[0]][1], self.highest_us.get(function, 0)
            most = max(math.floor(room), int(worst_us > highest_us))
            left_out += rows[most:]
            # The first is the most severe one.
            first = int(worst_us > highest_us)
            left_out += [row for row in rows[first:most] if calls[row][1] < least_us]
            self.room[function] = max(room - len(rows[:most]), 0.0)
            self.at_us[function] = now_us
            self.highest_us[function] = max(worst_us, highest_us)
        return sorted(left_out)
