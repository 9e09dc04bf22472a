"""The default detector: what it takes for ordinary, and how it scores the rest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from chimbuko.ad.detectors.robust import Robust
from chimbuko.core.arrays import Float64Array
from chimbuko.core.config import DETECTORS, AnalysisConfig
from tests.ad.tables import table_of
from tests.plainpython import examples

THRESHOLD = DETECTORS["robust"].default_threshold
ROBUST = Robust(AnalysisConfig())
BOTH_SIDES = Robust(AnalysisConfig(fast_side=True))


def upper(runtimes_us: Float64Array, threshold: float = THRESHOLD, detector: Robust = ROBUST) -> float:
    return float(detector.limits(table_of(runtimes_us), np.array([threshold])).edges_us[0, 1])


def score(runtimes_us: Float64Array, runtime_us: float) -> float:
    measures = ROBUST.limits(table_of(runtimes_us), np.array([THRESHOLD])).measures
    return float(ROBUST.judge(measures, np.array([runtime_us])).score[0])


def log_normal(calls: int, sigma: float = 0.3, median_us: float = 1000.0) -> Float64Array:
    return median_us * np.exp(sigma * np.random.default_rng(calls).standard_normal(calls))


@pytest.mark.parametrize("sigma", [0.2, 0.3, 0.6])
@pytest.mark.parametrize("calls", [10_000, 40_000])
def test_the_limit_of_log_normal_runtimes_is_seldom_exceeded(sigma: float, calls: int) -> None:
    beyond = stats.norm.sf(math.log(upper(log_normal(calls, sigma)) / 1000.0) / sigma)
    assert 1e-9 < beyond < 1.2e-4


def test_a_higher_threshold_is_a_higher_limit() -> None:
    limits = [upper(log_normal(20_000), threshold) for threshold in (3.0, 4.5, 6.0)]
    assert limits == sorted(limits) and limits[2] > 1.3 * limits[0]


def test_both_modes_of_a_function_are_ordinary_and_nothing_much_slower() -> None:
    random = np.random.default_rng(1)
    for second_share in (0.5, 0.05):
        modes = random.choice([200.0, 400.0], 10_000, p=[1 - second_share, second_share])
        limit = upper(modes * np.exp(0.05 * random.standard_normal(10_000)))
        assert 450.0 < limit < 800.0


def test_repeated_delays_are_found() -> None:
    """What the C++ system's histograms miss: 10,000 Gaussian calls and 2 identical ones at 40σ."""
    runtimes_us = np.random.default_rng(1).normal(1000.0, 50.0, 10_000)
    for repeats in (2, 5, 10):
        assert upper(np.append(runtimes_us, np.full(repeats, 3000.0))) < 2000.0


def test_young_functions_are_judged_with_care_or_not_at_all() -> None:
    assert upper(log_normal(2)) == math.inf
    assert score(log_normal(2), 1e6) == 0.0
    assert 2900.0 < upper(log_normal(100, 0.05)) < 3300.0


def test_of_few_calls_those_far_beyond_the_others_are_abnormal() -> None:
    """Two of 36 calls take 2 s instead of 10 ms; two of three do not stand out."""
    rare = np.append(np.full(33, 10_000.0), [2e6, 2e6])
    assert upper(rare) == pytest.approx(110_000, rel=0.1)
    assert score(rare, 2e6) > THRESHOLD > score(rare, 50_000.0)
    assert upper(np.array([10_000.0, 10_000.0, 2e6])) < 2e6
    assert upper(np.array([10_000.0, 2e6, 2e6])) > 2e6
    # A few milliseconds are no delay that anybody looks for in a function of a few calls.
    assert upper(np.append(np.full(10, 100.0), 50_000.0)) > 100_000
    assert upper(np.append(np.full(20, 1e6), 4e6)) > 5e6


@given(st.lists(st.floats(1.0, 1e8), min_size=3, max_size=37))
def test_few_calls_cannot_flood(runtimes_us: list[float]) -> None:
    limit = upper(np.array(runtimes_us))
    flagged = [us for us in runtimes_us if us >= limit]
    assert len(flagged) <= max(1, len(runtimes_us) // 10)
    assert all(score(np.array(runtimes_us), us) >= THRESHOLD * (1 - 1e-9) for us in flagged)


def test_expected_is_the_median() -> None:
    runtimes_us = np.append(log_normal(1000), np.full(20, 1e6))
    limits = ROBUST.limits(table_of(runtimes_us), np.array([THRESHOLD]))
    judged = ROBUST.judge(limits.measures, np.array([5000.0]))
    assert limits.expected_us[0] == judged.expected_us[0] == pytest.approx(1000.0, rel=0.05)
    assert judged.seen[0] == 1020
    # About one σ of the logarithm.
    assert judged.spread_us[0] == pytest.approx(350.0, rel=0.3)


def test_short_calls_are_abnormal_only_where_they_are_looked_for() -> None:
    table = table_of(log_normal(20_000))
    thresholds = np.array([THRESHOLD])
    one, both = ROBUST.limits(table, thresholds).edges_us, BOTH_SIDES.limits(table, thresholds).edges_us
    assert one[0, 0] == -math.inf
    assert both[0, 1] == one[0, 1]
    assert stats.norm.sf(math.log(1000.0 / both[0, 0]) / 0.3) < 1.2e-4
    assert both[0, 0] > 100.0


@pytest.mark.parametrize("sigma", [0.1, 0.5])
def test_score_is_the_quantile_that_is_exceeded_as_seldom(sigma: float) -> None:
    runtimes_us = log_normal(40_000, sigma)
    for z in (3.0, 5.0, 8.0):
        assert score(runtimes_us, 1000.0 * math.exp(sigma * z)) == pytest.approx(z, rel=0.12)


def test_a_rare_mode_makes_what_lies_beyond_it_rarer() -> None:
    slow = 4.0 * log_normal(2000, 0.1)
    alone, among_fast_ones = score(slow, 6000.0), score(np.append(log_normal(18_000, 0.1), slow), 6000.0)
    assert among_fast_ones > alone + 0.3


@examples(50)
@given(st.lists(st.floats(1.0, 1e9), min_size=40, max_size=60), st.lists(st.floats(1.0, 1e6), min_size=2))
def test_a_longer_call_never_scores_less_beyond_the_limit(
    runtimes_us: list[float], factors: list[float]
) -> None:
    limit = upper(np.array(runtimes_us))
    scores = [score(np.array(runtimes_us), factor * limit) for factor in sorted(factors)]
    assert scores == sorted(scores)
    assert scores[0] > 0.0 and all(map(math.isfinite, scores))


def test_functions_are_judged_one_by_one() -> None:
    """Each row by its own numbers, in whatever company."""
    rows = [log_normal(50), log_normal(5000), log_normal(10), log_normal(3000, 0.8, 50_000.0)]
    thresholds = np.array([4.5, 6.0, 4.5, 3.0])
    together = ROBUST.limits(table_of(*rows), thresholds)
    for number, row in enumerate(rows):
        alone = ROBUST.limits(table_of(row), thresholds[number : number + 1])
        np.testing.assert_array_equal(alone.edges_us[0], together.edges_us[number])
