"""Statistics of counters, and the state of the node."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.calls.counters import Counters
from chimbuko.ad.calls.selection import StepCounters
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.core.calls.record import CounterStatistics
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.traceschema import MAX_TIME_US, StreamNames, TraceStep
from tests.plainpython import examples

RANK = 3
NAMES = {0: "TIME", 1: "bytes sent", 2: "monitoring: load", 5: "heap", 1 << 40: "absurd"}

Row = tuple[int, int, int, int, int, int]


def step_of(number: int, rows: list[Row]) -> TraceStep:
    counters = np.array(rows, np.uint64).reshape(-1, 6)
    return TraceStep(number, np.empty((0, 6), np.uint64), np.empty((0, 8), np.uint64), counters)


def row(counter: int, value: int, time: int = 1000, rank: int = RANK) -> Row:
    return (0, rank, 0, counter, value, time)


def read(counters: Counters, step: TraceStep, names: StreamNames) -> StepCounters:
    stacks = CallStacks(RANK)
    stacks.build(step, names)
    return counters.step(step, names, stacks, np.empty(0, np.int32))


rows = st.lists(
    st.builds(
        row,
        st.sampled_from((0, 1, 2, 3, 5, 6, 1 << 16, 1 << 40, (1 << 64) - 1)),
        st.integers(0, 1 << 40),
        st.sampled_from((0, 1, 2000, MAX_TIME_US - 1, MAX_TIME_US)),
        st.sampled_from((RANK, RANK, RANK, RANK + 1)),
    ),
    max_size=20,
)


@examples(60)
@given(st.lists(rows, max_size=4))
def test_statistics_are_those_of_all_possible_values(steps: list[list[Row]]) -> None:
    counters = Counters(RANK, ())
    for number, values in enumerate(steps):
        read(counters, step_of(number, values), StreamNames(counters=NAMES))
    found = {one.name: one for one in counters.statistics()}
    for number, name in NAMES.items():
        values = [
            one[4] for step in steps for one in step
            if (one[3], one[1]) == (number, RANK) and 0 < one[5] < MAX_TIME_US
        ]  # fmt: skip
        if not values or number >= 1 << 16:
            assert name not in found
            continue
        exact = Moments.of(values)
        assert (found[name].n, found[name].minimum, found[name].maximum) == (
            exact.n,
            exact.minimum,
            exact.maximum,
        )
        assert found[name].mean == pytest.approx(exact.mean)
        assert found[name].m2 == pytest.approx(exact.m2, rel=1e-6)


def test_statistics_go_on_where_another_process_ended() -> None:
    counters = Counters(RANK, ())
    read(counters, step_of(0, [row(5, value) for value in (1, 2, 3)]), StreamNames(counters=NAMES))
    counters = pickle.loads(pickle.dumps(counters))
    read(counters, step_of(1, [row(5, 4)]), StreamNames(counters=NAMES))
    assert counters.statistics() == [CounterStatistics("heap", *Moments.of([1, 2, 3, 4]).row().tolist())]


def test_node_state_is_the_latest_value_of_each_watched_counter() -> None:
    counters = Counters(RANK, ("monitoring:", "heap"))

    def state(step: TraceStep) -> list[tuple[int, int, int]]:
        node_state = read(counters, step, StreamNames(counters=NAMES)).node_state
        return [(one.counter, one.value, one.time_us) for one in node_state]

    first = step_of(0, [row(5, 7, 10), row(1, 9), row(2, 70, 11)])
    assert state(first) == [(5, 7, 10), (2, 70, 11)]
    assert state(step_of(1, [row(2, 80, 20), row(2, 90, 21)])) == [(5, 7, 10), (2, 90, 21)]


def test_counters_that_are_named_later_are_counted_from_then_on() -> None:
    counters, names = Counters(RANK, ("heap",)), StreamNames(counters={0: "TIME"})
    read(counters, step_of(0, [row(5, 1)]), names)
    names.counters[5] = "heap"
    second = read(counters, step_of(1, [row(5, 2)]), names)
    assert [(one.name, one.n) for one in counters.statistics()] == [("heap", 1.0)]
    assert len(second.node_state) == 1
