"""What a stream knows: the model, what was handed out since, and its own; against lists of runtimes."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamstatistics import Learned, StreamStatistics
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import BUCKETED_PROFILE
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.ad.tables import table_of
from tests.plainpython import examples

NAMES = StreamNames(timers={number: f"f{number}" for number in range(4)})
BUCKETS = BUCKETED_PROFILE.slices["buckets"]
EXCLUSIVE = BUCKETED_PROFILE.slices["exclusive_us"]
INCLUSIVE = BUCKETED_PROFILE.slices["inclusive_us"]
ANOMALIES = BUCKETED_PROFILE.slices["anomalies"].start
SEVERITY = BUCKETED_PROFILE.slices["severity_us"].start

Runtimes = dict[int, list[int]]


class Stream:
    """Steps of calls one after the other, without others inside; the first of each timer teaches nothing."""

    def __init__(self, is_frozen: bool = False, use_inclusive: bool = False) -> None:
        self.statistics = StreamStatistics(BUCKETED_PROFILE, use_inclusive, is_frozen)
        self._stacks = CallStacks(0)
        self._number = 0
        self._time = 1_000_000
        self.learn([(timer, 1) for timer in NAMES.timers])

    def learn(self, calls: list[tuple[int, int]]) -> tuple[int, list[int]]:
        """Timers and runtimes of a step; returns what ``StreamStatistics.learn`` does."""
        rows = []
        for timer, runtime_us in calls:
            rows += [[0, 0, 0, 0, timer, self._time], [0, 0, 0, 1, timer, self._time + runtime_us]]
            self._time += runtime_us + 5
        events = np.array(rows, np.uint64).reshape(-1, 6)
        step = TraceStep(self._number, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))
        self._number += 1
        self._stacks.build(step, NAMES)
        completed, timers = self.statistics.learn(self._stacks)
        return completed, timers.tolist()


def merged(*parts: Runtimes) -> Runtimes:
    together: Runtimes = defaultdict(list)
    for part in parts:
        for timer, values in part.items():
            together[timer] += values
    return together


def model_of(runtimes: Runtimes) -> np.ndarray:
    """Rows by timer id, as an agent makes them."""
    return table_of(*(runtimes.get(timer, []) for timer in NAMES.timers))


def assert_known(statistics: StreamStatistics, expected: Runtimes) -> None:
    timers = np.array(list(NAMES.timers))
    known = statistics.known(timers)
    exact = model_of(expected)
    np.testing.assert_array_equal(known[:, BUCKETS], exact[:, BUCKETS])
    for timer in NAMES.timers:
        found, wanted = (Moments.from_row(table[timer, EXCLUSIVE]) for table in (known, exact))
        assert (found.n, found.minimum, found.maximum) == (wanted.n, wanted.minimum, wanted.maximum)
        assert (found.mean, found.m2) == pytest.approx((wanted.mean, wanted.m2), rel=1e-9, abs=1e-6)
    assert statistics.seen(timers).tolist() == [len(expected.get(timer, [])) for timer in NAMES.timers]


steps = st.lists(st.tuples(st.sampled_from(list(NAMES.timers)), st.integers(0, 10**6)), max_size=8)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), steps),
        st.tuples(st.sampled_from(["hand out", "take away"]), st.just([])),
        st.tuples(st.just("model"), steps),
    ),
    max_size=25,
)


@examples(120)
@given(actions, st.booleans())
def test_known_is_the_model_and_all_own_calls_that_it_does_not_hold(
    sequence: list[tuple[str, list[tuple[int, int]]]], is_frozen: bool
) -> None:
    """However learning, handing out, taking away and models mix; frozen, the model alone counts."""
    stream = Stream(is_frozen)
    stream.statistics.hand_out(0)
    stream.statistics.take_model(BUCKETED_PROFILE.empty(0), 0)
    generation = 1
    model: Runtimes = {}
    own: Runtimes = defaultdict(list)
    handed_out: dict[int, Runtimes] = defaultdict(dict)
    contained: Runtimes = {}
    for action, values in sequence:
        given_values: Runtimes = defaultdict(list)
        for timer, runtime_us in values:
            given_values[timer].append(runtime_us)
        if action == "learn":
            completed, timers = stream.learn(values)
            assert (completed, timers) == (len(values), sorted(given_values))
            own = merged(own, given_values)
        elif action == "hand out":
            learned = stream.statistics.hand_out(generation)
            assert learned.timers.tolist() == sorted(own)
            np.testing.assert_array_equal(
                learned.table[:, BUCKETS], table_of(*(own[t] for t in sorted(own)))[:, BUCKETS]
            )
            handed_out[generation], own = merged(handed_out[generation], own), defaultdict(list)
        elif action == "take away":
            generation += 1
        else:
            # A model holds what was taken away before, and some calls of other streams.
            contained = merged(contained, *(handed_out.pop(g) for g in sorted(handed_out) if g < generation))
            model = merged(contained, given_values)
            contained = model
            stream.statistics.take_model(model_of(model), generation - 1)
        assert_known(stream.statistics, model if is_frozen else merged(model, *handed_out.values(), own))


@examples(60)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("learn"), steps),
            st.tuples(st.sampled_from(["hand out", "take away"]), st.just([])),
            st.tuples(st.sampled_from(["merge even", "merge odd"]), st.just([])),
        ),
        max_size=25,
    )
)
def test_calls_count_once_where_others_merge_functions_one_after_the_other(
    sequence: list[tuple[str, list[tuple[int, int]]]],
) -> None:
    """Even timers are merged by one part, odd ones by another, each when it comes to it."""
    stream = Stream()
    stream.statistics.hand_out(0)
    stream.statistics.take_model(BUCKETED_PROFILE.empty(0), 0)
    generation, contained = 1, [0, 0]
    own: Runtimes = {}
    handed_out: list[tuple[int, Runtimes]] = []
    learned: Runtimes = {}
    for action, values in sequence:
        if action == "learn":
            stream.learn(values)
            for timer, runtime_us in values:
                own, learned = (merged(one, {timer: [runtime_us]}) for one in (own, learned))
        elif action == "hand out":
            stream.statistics.hand_out(generation)
            handed_out.append((generation, own))
            own = {}
        elif action == "take away":
            generation += 1
        else:
            contained[action == "merge odd"] = generation - 1
            held = [
                {timer: calls for timer, calls in part.items() if number <= contained[timer % 2]}
                for number, part in handed_out
            ]
            ahead = np.array([contained[timer % 2] for timer in NAMES.timers])
            stream.statistics.take_model(model_of(merged(*held)), min(contained), ahead)
        assert_known(stream.statistics, learned)


def test_a_function_that_the_model_does_not_know_is_known_from_own_calls() -> None:
    stream = Stream()
    stream.statistics.take_model(table_of([5.0, 5.0]), -1)
    stream.learn([(3, 70)])
    assert stream.statistics.seen(np.array([0, 3])).tolist() == [2.0, 1.0]


@pytest.mark.parametrize("use_inclusive", [False, True])
def test_what_is_judged_is_counted_by_bucket(use_inclusive: bool) -> None:
    """``f0`` holds a call of ``f1``: 100 µs with it, 70 µs without."""
    stream = Stream(use_inclusive=use_inclusive)
    start = 10_000_000
    events = np.array(
        [
            [0, 0, 0, 0, 0, start],
            [0, 0, 0, 0, 1, start + 10],
            [0, 0, 0, 1, 1, start + 40],
            [0, 0, 0, 1, 0, start + 100],
        ],
        np.uint64,
    )
    step = TraceStep(1, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))
    stream._stacks.build(step, NAMES)
    stream.statistics.learn(stream._stacks)
    row = stream.statistics.known(np.array([0]))[0]
    assert (row[EXCLUSIVE][1], row[INCLUSIVE][1]) == (70.0, 100.0)
    judged = 100.0 if use_inclusive else 70.0
    np.testing.assert_array_equal(row[BUCKETS], table_of([judged])[0, BUCKETS])
    assert stream.statistics.extremes[0].tolist() == [judged, judged]


def test_anomalies_are_handed_out_with_the_rest() -> None:
    stream = Stream()
    stream.statistics.hand_out(0)
    stream.learn([(1, 10), (2, 20), (2, 30)])
    stream.statistics.note_anomalies(np.array([2, 2]), np.array([4.0, 5.0]), np.array([9.0, 7.0]))
    learned = stream.statistics.hand_out(1)
    assert learned.timers.tolist() == [1, 2]
    assert learned.table[:, [ANOMALIES, SEVERITY]].tolist() == [[0.0, 0.0], [2.0, 9.0]]


def test_what_is_handed_out_twice_in_a_generation_is_kept_once() -> None:
    """An outbox in which deltas merge is taken away as one."""
    stream = Stream()
    stream.statistics.hand_out(0)
    parts: list[Learned] = []
    for runtime_us in (10, 20):
        stream.learn([(1, runtime_us)])
        parts.append(stream.statistics.hand_out(1))
    model = BUCKETED_PROFILE.empty(2)
    for part in parts:
        BUCKETED_PROFILE.merge(model, part.timers, part.table)
    stream.statistics.take_model(model, 1)
    assert_known(stream.statistics, {1: [10, 20]})
