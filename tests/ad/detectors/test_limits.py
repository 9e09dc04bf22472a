"""What is ordinary for each function of a stream: thresholds, the least difference, and when it is due."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.detectors import Judgements, Limits, make_detector
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.core.arrays import Float64Array
from chimbuko.core.config import DETECTORS, AnalysisConfig
from chimbuko.core.statistics.schema import BUCKETED_PROFILE
from tests.ad.tables import is_ordinary, table_of

SOLVE, SEND, RECV, ONCE = range(4)
NAMES = {SOLVE: "solve [{heat.c} {10,0}]", SEND: "MPI_Send()", RECV: "MPI_Recv()", ONCE: "main"}
CALLS = np.tile([80.0, 90.0, 100.0, 110.0, 120.0], 200)


def limits_of(config: AnalysisConfig) -> FunctionLimits:
    limits = FunctionLimits(make_detector(config), config)
    limits.reserve(len(NAMES))
    for timer, name in NAMES.items():
        limits.name(timer, name)
    return limits


def updated(config: AnalysisConfig, *timers: int) -> FunctionLimits:
    """With the same runtimes known of all ``timers``."""
    limits = limits_of(config)
    limits.update(np.array(timers), np.full(len(timers), 1000.0), table_of(*[CALLS] * len(timers)))
    return limits


def sstd(**options: object) -> AnalysisConfig:
    return AnalysisConfig(detector="sstd", min_anomaly_us=0, **options)


def test_where_nothing_is_known_all_is_ordinary() -> None:
    limits = limits_of(AnalysisConfig())
    assert all(is_ordinary(edges_us, us) for edges_us in limits.edges_us for us in (0.0, 1e15))


@pytest.mark.parametrize("detector", DETECTORS)
def test_calls_of_functions_of_which_nothing_is_known_can_be_scored(detector: str) -> None:
    """They are recorded where they are landmarks: here before the first limit, and of a later function."""
    config = AnalysisConfig(detector=detector)
    limits = limits_of(config)
    runtimes_us = np.array([0.0, 1e6])
    assert not make_detector(config).judge(limits.measures[[SOLVE, ONCE]], runtimes_us).score.any()
    limits.update(np.array([SOLVE]), np.array([1000.0]), table_of(CALLS))
    limits.reserve(100)
    assert not make_detector(config).judge(limits.measures[[ONCE, 99]], runtimes_us).score.any()


def test_a_function_without_a_name_is_not_judged() -> None:
    limits = FunctionLimits(make_detector(AnalysisConfig()), AnalysisConfig())
    limits.reserve(2)
    limits.name(1, "main")
    assert limits.is_judged[:2].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("ignore", "judged"),
    [
        (("MPI_*",), [SOLVE, ONCE]),
        (("main", "solve*"), [SEND, RECV]),
        (("MPI_Send",), [SOLVE, SEND, RECV, ONCE]),
        (("*",), []),
    ],
)
def test_ignored_functions_are_not_judged(ignore: tuple[str, ...], judged: list[int]) -> None:
    limits = updated(AnalysisConfig(ignore=ignore), *NAMES)
    assert np.flatnonzero(limits.is_judged).tolist() == judged
    timers = np.arange(len(NAMES))
    due = limits.due(timers, np.full(len(NAMES), 1e6), np.tile([0.0, 1e9], (len(NAMES), 1)))
    assert np.flatnonzero(due).tolist() == judged


def test_the_first_threshold_whose_pattern_matches_counts() -> None:
    thresholds = (("MPI_Recv()", 3.0), ("MPI_*", 12.0), ("MPI_Send()", 1.0))
    limits = updated(sstd(thresholds=thresholds), *NAMES)
    mean, spread_us = CALLS.mean(), CALLS.std(ddof=1)
    reach = {SOLVE: 6.0, SEND: 12.0, RECV: 3.0, ONCE: 6.0}
    for timer, times in reach.items():
        assert limits.edges_us[timer, 1] == pytest.approx(mean + times * spread_us)


def test_a_threshold_for_all_leaves_those_of_single_functions() -> None:
    limits = updated(sstd(threshold=4.0, thresholds=(("main", 2.0),)), *NAMES)
    spread_us = CALLS.std(ddof=1)
    assert limits.edges_us[SOLVE, 1] == pytest.approx(CALLS.mean() + 4.0 * spread_us)
    assert limits.edges_us[ONCE, 1] == pytest.approx(CALLS.mean() + 2.0 * spread_us)


def test_small_differences_do_not_count() -> None:
    usual, wide = updated(sstd(), SOLVE), updated(AnalysisConfig(detector="sstd", min_anomaly_us=5000), SOLVE)
    timers = np.array([SOLVE])
    assert usual.ordinary_edges_us(timers)[0, 1] < 200.0
    assert wide.ordinary_edges_us(timers)[0, 1] == 5100.0


def test_short_calls_are_judged_only_where_asked() -> None:
    usual, both = updated(sstd(), SOLVE), updated(sstd(fast_side=True), SOLVE)
    assert usual.edges_us[SOLVE, 0] == -math.inf
    assert both.edges_us[SOLVE, 0] == pytest.approx(CALLS.mean() - 6.0 * CALLS.std(ddof=1))
    wide = updated(AnalysisConfig(detector="sstd", fast_side=True, min_anomaly_us=95), SOLVE)
    assert wide.ordinary_edges_us(np.array([SOLVE]))[0, 0] == pytest.approx(5.0)


def test_room_for_more_timers_keeps_what_is_known() -> None:
    limits = updated(sstd(ignore=("main",)), *NAMES)
    before = limits.edges_us[: len(NAMES)].copy()
    limits.reserve(1000)
    np.testing.assert_array_equal(limits.edges_us[: len(NAMES)], before)
    assert len(limits.edges_us) >= 1000 and is_ordinary(limits.edges_us[999], 1e12)
    assert np.flatnonzero(limits.is_judged).tolist() == [SOLVE, SEND, RECV]


def is_due(limits: FunctionLimits, seen: float, shortest_us: float, longest_us: float) -> bool:
    return bool(limits.due(np.array([SOLVE]), np.array([seen]), np.array([[shortest_us, longest_us]])).item())


def test_limits_are_due_when_calls_have_grown_or_one_comes_near() -> None:
    config = AnalysisConfig(min_anomaly_us=0)
    limits = limits_of(config)
    assert is_due(limits, 1.0, 100.0, 100.0)
    limits.update(np.array([SOLVE]), np.array([1000.0]), table_of(CALLS))
    upper_us = limits.edges_us[SOLVE, 1]
    assert not is_due(limits, 1120.0, 80.0, 0.79 * upper_us)
    assert is_due(limits, 1125.0, 80.0, 0.79 * upper_us)
    assert is_due(limits, 1001.0, 80.0, 0.81 * upper_us)
    assert not is_due(limits, 1001.0, 0.0, 0.79 * upper_us)


def test_a_short_call_makes_limits_due_where_short_calls_are_looked_for() -> None:
    limits = updated(AnalysisConfig(min_anomaly_us=0, fast_side=True), SOLVE)
    lower_us, upper_us = limits.edges_us[SOLVE]
    assert not is_due(limits, 1001.0, 1.3 * lower_us, 0.79 * upper_us)
    assert is_due(limits, 1001.0, 1.2 * lower_us, 0.79 * upper_us)


@dataclass
class Spans:
    """A detector that takes for ordinary what it is told."""

    edges_us: Float64Array
    expected_us: float
    name = "spans"
    schema = BUCKETED_PROFILE
    recheck_growth = 0.0

    def limits(self, table: Float64Array, thresholds: Float64Array) -> Limits:
        edges_us = np.tile(self.edges_us, (len(table), 1))
        return Limits(edges_us, np.full(len(table), self.expected_us), np.zeros((len(table), 1)))

    def judge(self, measures: Float64Array, runtimes_us: Float64Array) -> Judgements:
        zero = np.zeros(len(measures))
        return Judgements(zero, zero + self.expected_us, zero, zero)


@settings(deadline=None)
@given(
    st.lists(st.floats(0.0, 1000.0), min_size=2, max_size=8),
    st.floats(0.0, 1.0),
    st.integers(0, 500),
    st.booleans(),
    st.lists(st.floats(0.0, 1500.0), min_size=1, max_size=20),
)
def test_several_spans_of_ordinary_runtimes(
    edges: list[float], place: float, min_anomaly_us: int, fast_side: bool, runtimes_us: list[float]
) -> None:
    """Beyond the least difference the detector's word counts; within it all is ordinary."""
    edges_us = np.sort(edges)
    edges_us = np.append(edges_us, np.full(len(edges) % 2, np.inf))
    expected_us = float(edges_us[0] + place * (edges_us[1] - edges_us[0])) if edges_us[1] < np.inf else 1500.0
    config = AnalysisConfig(min_anomaly_us=min_anomaly_us, fast_side=fast_side)
    limits = FunctionLimits(Spans(edges_us, expected_us), config)
    limits.reserve(3)
    timers = np.array([0, 2])
    for timer in timers:
        limits.name(timer, "solve")
    limits.update(timers, np.ones(2), BUCKETED_PROFILE.empty(2))
    for runtime_us in runtimes_us:
        assert is_ordinary(limits.edges_us[1], runtime_us)
        if runtime_us >= expected_us + min_anomaly_us:
            is_expected = is_ordinary(edges_us, runtime_us)
        else:
            first_us = min(edges_us[0], expected_us - min_anomaly_us)
            is_expected = not fast_side or runtime_us >= first_us
        edges = limits.ordinary_edges_us(timers)
        assert all(is_ordinary(row, runtime_us) == is_expected for row in edges)
        assert (limits.judge(timers, np.full(2, runtime_us)).is_anomaly == (not is_expected)).all()


def test_rows_with_fewer_edges_than_others_stay_as_they_are() -> None:
    config = AnalysisConfig(min_anomaly_us=0)
    detector = Spans(np.array([0.0, 10.0, 20.0, 30.0]), 5.0)
    limits = FunctionLimits(detector, config)
    limits.reserve(2)
    limits.update(np.array([0]), np.ones(1), BUCKETED_PROFILE.empty(1))
    detector.edges_us = np.array([0.0, 15.0])
    limits.update(np.array([1]), np.ones(1), BUCKETED_PROFILE.empty(1))
    assert [is_ordinary(limits.edges_us[0], us) for us in (5.0, 15.0, 25.0, 35.0)] == [1, 0, 1, 0]
    assert [is_ordinary(limits.edges_us[1], us) for us in (5.0, 15.0, 25.0, 35.0)] == [1, 0, 0, 0]
