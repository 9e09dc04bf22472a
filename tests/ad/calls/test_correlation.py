"""The ring of launches, against a dictionary that forgets the oldest nodes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.calls.launches import ring
from chimbuko.ad.calls.selection import table
from chimbuko.ad.kernels import correlation as kernels
from chimbuko.ad.kernels.stack import CALL, NONE, THREAD
from chimbuko.core.arrays import Table
from tests.plainpython import examples

NODES = 16
THREAD_ID = 7
ids = st.integers(0, 40).map(lambda number: number * ((1 << 21) + 1) if number % 3 else number)


def one_thread() -> Table:
    threads = table(THREAD, 1)
    threads["id"][0] = THREAD_ID
    return threads


class SlowLaunches:
    """Remembers the last ``NODES`` launches; the calls have no callers, so each is one node."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, bool]] = []
        self.forgotten = 0

    def note(self, identity: int) -> None:
        if len(self.nodes) >= NODES:
            old, is_paired = self.nodes[-NODES]
            is_newest = old not in [node[0] for node in self.nodes[-NODES + 1 :]]
            self.forgotten += is_newest and not is_paired
        self.nodes.append((identity, False))

    def find(self, identity: int) -> int:
        for number in range(len(self.nodes) - 1, max(len(self.nodes) - NODES, 0) - 1, -1):
            if self.nodes[number][0] == identity:
                self.nodes[number] = identity, True
                return number
        return NONE


@examples(200)
@given(st.lists(st.tuples(st.booleans(), ids), max_size=120))
def test_the_newest_launch_of_an_id_is_found_until_it_is_overwritten(steps: list[tuple[bool, int]]) -> None:
    launches, slow = ring(NODES), SlowLaunches()
    calls = table(CALL, 1)
    calls[0] = np.zeros(1, CALL)[0]
    calls["parent"][0] = NONE
    for is_launch, identity in steps:
        one = np.array([identity], np.uint64)
        if is_launch:
            slow.note(identity)
            kernels.note_launches(
                one,
                np.zeros(1, np.int32),
                calls,
                one_thread(),
                np.zeros(1, np.uint8),
                launches,
                np.full(1, NONE, np.int64),
            )
        found = np.empty(1, np.int64)
        kernels.find_launches(one, launches, found)
        assert found[0] == slow.find(identity)
        assert found[0] == NONE or launches.threads[found[0] % NODES] == THREAD_ID
    assert launches.state[kernels.FORGOTTEN] == slow.forgotten


@examples(60)
@given(st.lists(ids, max_size=NODES))
def test_a_larger_ring_holds_the_same(noted: list[int]) -> None:
    small, large = ring(NODES), ring(4 * NODES)
    calls = table(CALL, 1)
    calls[0] = np.zeros(1, CALL)[0]
    calls["parent"][0] = NONE
    rows = np.zeros(len(noted), np.int32)
    keys = np.array(noted, np.uint64)
    free = np.full(1, NONE, np.int64)
    kernels.note_launches(keys, rows, calls, one_thread(), np.zeros(1, np.uint8), small, free)
    kernels.move_nodes(small, large)
    found = np.empty((2, len(noted)), np.int64)
    kernels.find_launches(keys, small, found[0])
    kernels.find_launches(keys, large, found[1])
    assert (large.threads[: len(noted)] == THREAD_ID).all()
    assert np.array_equal(found[0], found[1]) and (found[0] != NONE).all()
