"""Where the sampler runs."""

from __future__ import annotations

from chimbuko.monitor.service.session import better_core, last_core
from tests.monitor.sampling.made import span, thread


def test_the_last_core_of_the_masks_that_it_may_use() -> None:
    assert last_core([(0, 1), (4, 5)], [0, 1, 2, 3, 4]) == 4
    assert last_core([], [2, 7]) == 7
    assert last_core([(9,)], [2, 7]) == 7


def test_it_leaves_the_core_of_a_worker_for_a_free_one() -> None:
    bound = span(thread(1, (2,)), thread(2, (3,)), thread(3, (0, 1), busy=0.0))
    assert better_core(bound, [0, 1, 2, 3], 3) == 1
    assert better_core(bound, [2, 3], 3) == 3, "none is free"
    assert better_core(bound, [0, 1, 2, 3], 0) == 0, "it is beside none"
    spread = span(thread(1, (0, 1, 2, 3), processor=3))
    assert better_core(spread, [0, 1, 2, 3], 3) == 2
