"""Live totals of a run, per rank, function and stream, and the newest steps.

Totals come from the store and from frames, in any order and more than once: they only grow, so the larger one
is the newer one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import SILENT, StepCount, StreamHealth
from chimbuko.runtime.protocol.messages import Frame, FunctionStatistics, RankStatistics
from chimbuko.viz.live.totals import Totals

RECENT_STEPS = 50_000
"""Most steps kept until the store has them: 5 s of 10,000 ranks at one step a second, 12 MB."""


class LiveTotals:
    """Totals and newest steps of a run, as they grow."""

    def __init__(self) -> None:
        self.progress = 0
        """Number that grows with analysed steps only: agents report also where ranks are silent."""
        self.version = 0
        """Number that grows with each change."""
        self._ranks: dict[RankKey, RankStatistics] = {}
        self._functions: dict[tuple[int, str], FunctionStatistics] = {}
        self._health: dict[RankKey, StreamHealth] = {}
        self._recent: deque[StepCount] = deque(maxlen=RECENT_STEPS)
        self._zero_us: int | None = None
        self._newest_us: int | None = None
        self._now: Totals | None = None
        """Totals as they are; None if they have changed since somebody asked."""

    def now(self) -> Totals:
        """Return the totals as they are now, which stay so."""
        if self._now is None:
            # Of 10,000 ranks the copies take less time than their sums.
            self._now = Totals(
                ranks=self._ranks.copy(),
                functions=self._functions.copy(),
                health=self._health.copy(),
                recent=tuple(self._recent),
                version=self.version,
                zero_us=self._zero_us,
                newest_us=self._newest_us,
            )
        return self._now

    def note_change(self) -> None:
        """Note that something beside the totals has changed, of which pages are to know."""
        self.version += 1
        self._now = None

    def add_frame(self, frame: Frame) -> None:
        """Add the changes in a frame."""
        self.add_totals(frame.ranks, frame.functions, frame.health)
        for step in frame.steps:
            if step.start_us:  # A step without events, before the first event, has no time.
                self.add_times(step.start_us, step.end_us)
        self._recent.extend(frame.steps)
        self.progress += len(frame.steps)
        self.note_change()

    def add_totals(
        self,
        ranks: Iterable[RankStatistics],
        functions: Iterable[FunctionStatistics],
        health: Iterable[StreamHealth],
    ) -> None:
        """Add totals of any age."""
        changed = False
        for rank in ranks:
            known = self._ranks.get((rank.program, rank.rank))
            if known is None or (rank.steps, rank.total) > (known.steps, known.total):
                self._ranks[rank.program, rank.rank] = rank
                self.progress += 1
                changed = True
        for function in functions:
            held = self._functions.get((function.program, function.name))
            if held is None or (function.calls, function.anomalies) > (held.calls, held.anomalies):
                self._functions[function.program, function.name] = function
                changed = True
        for stream in health:
            last = self._health.get((stream.program, stream.rank))
            if (
                last is None
                or (stream.steps, stream.rows) > (last.steps, last.rows)
                or _went_on(last, stream)
            ):
                self._health[stream.program, stream.rank] = stream
                changed = True
        if changed:
            self.note_change()

    def oldest_news(self, ranks: Iterable[RankStatistics]) -> int | None:
        """Return the first step that is new in totals which are not added yet; None if none is."""
        known = ((self._ranks.get((rank.program, rank.rank)), rank) for rank in ranks)
        news = [
            0 if old is None else old.last_step
            for old, rank in known
            if old is None or old.steps < rank.steps
        ]
        return min(news, default=None)

    def add_times(self, zero_us: int, newest_us: int) -> None:
        """Widen the analysed time to hold that from ``zero_us`` to ``newest_us``."""
        self._zero_us = min(zero_us, zero_us if self._zero_us is None else self._zero_us)
        self._newest_us = max(newest_us, self._newest_us or 0)
        self._now = None


def _went_on(old: StreamHealth, new: StreamHealth) -> bool:
    """Whether the totals are the same, but the stream has gone on to another state; back to reading it goes
    with a step only.
    """
    states = ("reading", SILENT)
    is_on = old.state in states and new.state not in states[: states.index(old.state) + 1]
    return (new.steps, new.rows) == (old.steps, old.rows) and is_on
