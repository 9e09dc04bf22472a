"""What a writer takes of each node."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.provenance.write.pace import DRAIN_S, MOST_SHARE, StoreBudget, level

rates = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=30)


@given(rates, st.floats(0.1, 1e5))
def test_all_nodes_together_come_to_what_the_store_takes(found: list[float], most: float) -> None:
    limit = level(found, most)
    total = sum(min(rate, limit) for rate in found)
    assert total == pytest.approx(min(most, sum(found)), rel=1e-6)


@given(rates, st.floats(0.1, 1e5))
def test_no_node_has_to_keep_to_less_than_its_share(found: list[float], most: float) -> None:
    assert level(found, most) >= most / len(found) * (1 - 1e-9)


def test_what_others_leave_is_for_the_node_that_has_more() -> None:
    assert level([1.0, 1.0, 1.0, 500.0], 100.0) == pytest.approx(97.0)
    assert level([1.0, 1.0, 1.0, 50.0], 100.0) == pytest.approx(97.0)


class Store:
    """A store that takes so long for a transaction and for each record, and the nodes that send to it."""

    def __init__(self, record_s: float, transaction_s: float, found: dict[str, float]) -> None:
        self.record_s, self.transaction_s, self.found = record_s, transaction_s, found
        self.budget = StoreBudget(0.0)
        self.now_s = 0.0
        self.queue = dict.fromkeys(found, 0.0)
        self.per_node: float | None = None

    def second(self) -> dict[str, int]:
        """Let a second pass, and return what was stored of each node."""
        stored = dict.fromkeys(self.found, 0)
        for node, rate in self.found.items():
            self.queue[node] += rate if self.per_node is None else min(rate, self.per_node)
        left_s = 1.0
        # Of each call there are two records.
        while left_s > 0.0 and any(waiting >= 1.0 for waiting in self.queue.values()):
            calls = {node: int(min(waiting, 50.0)) for node, waiting in self.queue.items()}
            records = 2 * sum(calls.values())
            took_s = self.transaction_s + self.record_s * records
            self.budget.stored(calls, records, len(calls), took_s)
            left_s -= took_s
            for node, count in calls.items():
                self.queue[node] -= count
                stored[node] += count
        self.budget.waited(max(left_s, 0.0))
        self.now_s += 1.0
        assert self.budget.is_due(self.now_s)
        waiting = sum(math.ceil(waiting / 50.0) for waiting in self.queue.values() if waiting >= 1.0)
        self.per_node = self.budget.per_agent(self.now_s, waiting)
        return stored


def test_a_writer_that_is_half_idle_takes_all() -> None:
    store = Store(0.0005, 0.01, {"one": 300.0, "other": 20.0})
    for _ in range(30):
        store.second()
        assert store.per_node is None


def test_a_flooded_writer_says_what_it_takes_and_what_queued_goes() -> None:
    store = Store(0.001, 0.005, {"flood": 5_000.0, "second": 5_000.0, "quiet": 10.0})
    for _ in range(120):
        stored = store.second()
    assert store.per_node is not None
    # 500 calls in a second would leave no time for anything else.
    assert 0.6 * 500 * MOST_SHARE < 2 * store.per_node + 10 <= 500
    assert stored["quiet"] == pytest.approx(10, abs=1)
    assert stored["flood"] == pytest.approx(stored["second"], abs=60)
    assert store.queue["quiet"] < 2.0
    # What had come before anybody could say so is stored, too.
    assert sum(store.queue.values()) < 500 * DRAIN_S / 4


def test_a_limit_ends_with_the_flood() -> None:
    store = Store(0.001, 0.005, {"one": 5_000.0})
    for _ in range(20):
        store.second()
    assert store.per_node is not None
    store.found["one"], store.queue["one"] = 20.0, 0.0
    for _ in range(20):
        store.second()
    assert store.per_node is None


def test_where_all_else_takes_the_time_calls_still_have_a_share() -> None:
    # 100 transactions in a second take all of it, however few calls are in them.
    budget = StoreBudget(0.0)
    for second in range(1, 60):
        for _ in range(100):
            budget.stored(
                {"node": 1 + second % 3}, 2 * (1 + second % 3), 1, 0.0098 + 0.0001 * (1 + second % 3)
            )
        per_node = budget.per_agent(float(second), 0)
    assert per_node is not None
    # 0.1 of a second, at 0.1 ms each.
    assert per_node == pytest.approx(1_000, rel=0.3)
