"""What came to an agent in each of a bounded number of intervals, and what it took for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from chimbuko.core.calls.record import StreamHealth
from chimbuko.runtime.protocol.telemetry import AgentLoad

MOST_LOADS = 16
LONGEST_WAIT_US = 3_600_000_000
"""A step that is older, or younger than now, is of a trace that was recorded."""


@dataclass(frozen=True)
class _Totals:
    """Since the agent began."""

    at_s: float
    cpu_s: float
    steps: int = 0
    rows: int = 0
    size_bytes: int = 0


class Loads:
    """Makes intervals of totals; when there are more than ``MOST_LOADS``, neighbours become one."""

    def __init__(self) -> None:
        self._before: _Totals | None = None
        self._loads: list[AgentLoad] = []
        self._waited_us = 0
        self._waits = 0
        self._first_s: float | None = None

    def note_step(self, now_s: float, wait_us: int) -> None:
        """The analysis of a step that had ended so long ago reached the agent."""
        if self._first_s is None:
            self._first_s = now_s
        if 0 <= wait_us < LONGEST_WAIT_US:
            self._waited_us += wait_us
            self._waits += 1

    def add(self, now_s: float, cpu_s: float, read: Sequence[StreamHealth]) -> None:
        """Totals at a time: CPU time, and what was read of each stream. An interval without a step is none:
        what the start took is no load.
        """
        sums = (sum(one.steps for one in read), sum(one.rows for one in read))
        totals = _Totals(now_s, cpu_s, *sums, sum(one.size_bytes for one in read))
        before, self._before = self._before or _Totals(now_s, cpu_s), totals
        if not self._loads and self._first_s is not None:
            # Until then there was no program.
            before = replace(before, at_s=self._first_s)
        seconds, took_s, steps, rows, size_bytes = (
            now - then for now, then in zip(astuple(totals), astuple(before), strict=True)
        )
        if seconds <= 0 or steps <= 0:
            return
        wait_s = self._waited_us / self._waits / 1e6 if self._waits else None
        self._waited_us = self._waits = 0
        streams = sum(one.rows > 0 for one in read)
        load = AgentLoad(seconds, streams, steps, rows, size_bytes, max(took_s, 0.0), wait_s)
        if len(self._loads) == MOST_LOADS:
            pairs = zip(self._loads[::2], self._loads[1::2], strict=True)
            self._loads = [joined(earlier, later) for earlier, later in pairs]
        self._loads.append(load)

    def intervals(self) -> list[AgentLoad]:
        """In order."""
        return list(self._loads)


def joined(earlier: AgentLoad, later: AgentLoad) -> AgentLoad:
    """Two intervals as one."""
    both = (earlier, later)
    waits = [(one.wait_s, one.steps) for one in both if one.wait_s is not None]
    waited = sum(steps for _, steps in waits)
    return AgentLoad(
        sum(one.seconds for one in both),
        max(one.streams for one in both),
        sum(one.steps for one in both),
        sum(one.rows for one in both),
        sum(one.size_bytes for one in both),
        sum(one.cpu_s for one in both),
        sum(wait_s * steps for wait_s, steps in waits) / waited if waited else None,
    )
