"""Newest steps of a run, which the store may not have yet."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount

RECENT_STEPS = 50_000
"""Most steps kept until the store has them: 5 s of 10,000 ranks at one step a second, 12 MB."""


class RecentSteps:
    """Newest steps in the order of their arrival, of which the oldest are forgotten."""

    def __init__(self, most: int = RECENT_STEPS) -> None:
        self._most = most
        self._all: deque[StepCount] = deque()
        self._by_rank: defaultdict[RankKey, deque[StepCount]] = defaultdict(deque)
        self._shown: dict[RankKey, tuple[StepCount, ...]] = {}
        self._changed: set[RankKey] = set()
        """Ranks whose steps are others than those shown."""

    def add(self, steps: Iterable[StepCount]) -> None:
        """Add newer steps."""
        for step in steps:
            self._all.append(step)
            rank = step.program, step.rank
            self._by_rank[rank].append(step)
            self._changed.add(rank)
        while len(self._all) > self._most:
            oldest = self._all.popleft()
            rank = oldest.program, oldest.rank
            self._by_rank[rank].popleft()
            self._changed.add(rank)

    def now(self) -> Mapping[RankKey, tuple[StepCount, ...]]:
        """Return the steps of each rank that has some, in the order of their arrival; they stay as they are.

        Only ranks with news are copied: pages ask for few ranks, and to sort out all 50,000 steps takes long.
        """
        for rank in self._changed:
            if steps := self._by_rank[rank]:
                self._shown[rank] = tuple(steps)
            else:
                del self._by_rank[rank]
                self._shown.pop(rank, None)
        self._changed.clear()
        return self._shown.copy()
