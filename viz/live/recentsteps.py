"""The newest steps of all ranks, which the store may not have yet."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount

RECENT_STEPS = 50_000
"""Steps kept until the store has them: 5 s of 10,000 ranks at one step a second, 12 MB."""


class RecentSteps:
    """Steps in the order of their arrival, of which the oldest are forgotten."""

    def __init__(self, most: int = RECENT_STEPS) -> None:
        self._most = most
        self._all: deque[StepCount] = deque()
        # Pages ask for a few ranks at a time: to look at all 50,000 steps takes 2 ms under the lock.
        self._by_rank: defaultdict[RankKey, deque[StepCount]] = defaultdict(deque)

    def add(self, steps: Iterable[StepCount]) -> None:
        """Take in newer ones."""
        for step in steps:
            self._all.append(step)
            self._by_rank[step.program, step.rank].append(step)
        while len(self._all) > self._most:
            oldest = self._all.popleft()
            self._by_rank[oldest.program, oldest.rank].popleft()

    def of(self, ranks: Iterable[RankKey]) -> list[StepCount]:
        """Those of some ranks, rank by rank."""
        return [step for rank in ranks for step in self._by_rank.get(rank, ())]

    def __iter__(self) -> Iterator[StepCount]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
