"""Newest steps, by rank."""

from __future__ import annotations

import random

import msgspec

from chimbuko.core.calls.record import StepCount
from chimbuko.viz.live.recentsteps import RECENT_STEPS, RecentSteps


def test_memory_does_not_grow_with_the_run() -> None:
    recent = RecentSteps()
    recent.add(StepCount(0, 0, 0, 0, 1, 1, 0, 0.0) for _ in range(RECENT_STEPS + 10))
    assert list(map(len, recent.now().values())) == [RECENT_STEPS]


def test_recent_steps_are_found_by_rank() -> None:
    draw = random.Random(4)
    steps = [StepCount(draw.randrange(2), draw.randrange(5), at, 0, 1, 1, 0, 0.0) for at in range(300)]
    recent, reported = RecentSteps(100), 0
    while reported < len(steps):
        more = draw.randrange(1, 40)
        recent.add(steps[reported : reported + more])
        reported += more
        newest = steps[:reported][-100:]
        ranks = {(step.program, step.rank) for step in newest}
        assert recent.now() == {
            rank: tuple(step for step in newest if (step.program, step.rank) == rank) for rank in ranks
        }


def test_steps_that_were_asked_for_stay() -> None:
    recent = RecentSteps(2)
    first, second, third = (StepCount(0, 3, at, 0, 1, 1, 0, 0.0) for at in range(3))
    recent.add([first, second])
    before = recent.now()
    recent.add([third])
    assert (before, recent.now()) == ({(0, 3): (first, second)}, {(0, 3): (second, third)})
    recent.add(msgspec.structs.replace(third, rank=rank) for rank in (4, 5))
    assert set(recent.now()) == {(0, 4), (0, 5)}, "what has no steps any more is forgotten"
