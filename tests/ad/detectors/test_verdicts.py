"""Score and label are said together: what holds of them by every detector, whatever the runtimes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.detectors import Verdicts, make_detector
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.config import DETECTORS, AnalysisConfig
from chimbuko.core.statistics.schema import BUCKETED_PROFILE, schema_of
from tests.plainpython import examples

DISTANCES = ("robust", "sstd")
"""Detectors by which a longer call is never more ordinary; the histograms' see gaps between modes."""

clusters = st.lists(
    st.tuples(st.integers(1, BUCKETS - 60), st.integers(1, 40), st.integers(1, 3000)), min_size=1, max_size=4
)
thresholds = st.one_of(st.none(), st.floats(0.3, 9.0))
least_us = st.sampled_from([0, 50, 1000])


def known(some: list[tuple[int, int, int]]) -> Float64Array:
    """One row of ``BUCKETED_PROFILE`` with clusters of calls: where they begin, how wide, how many each."""
    table = BUCKETED_PROFILE.empty(1)
    counts = table[0, BUCKETED_PROFILE.slices["buckets"]]
    for start, width, calls in some:
        counts[start : start + width] += calls
    middles_us, calls = (EDGES_US[:-1] + EDGES_US[1:]) / 2, counts.sum()
    mean_us = np.average(middles_us, weights=counts)
    # Moments by which a detector judges: the number, the mean, and the sum of squared distances from it.
    moments = calls, mean_us, counts @ (middles_us - mean_us) ** 2
    table[0, BUCKETED_PROFILE.slices["exclusive_us"]][:3] = moments
    return table


def limits_of(config: AnalysisConfig, table: Float64Array) -> FunctionLimits:
    limits = FunctionLimits(make_detector(config), config)
    limits.reserve(1)
    limits.name(0, "solve")
    row = table[:, : schema_of(config.detector).width].copy()
    limits.update(np.zeros(1, np.int64), table[:, 0].copy(), row)
    return limits


def tried(limits: FunctionLimits) -> Float64Array:
    """Runtimes over all that is possible, with those next to each limit."""
    edges_us = limits.edges_us[0][np.isfinite(limits.edges_us[0])]
    beside = [edges_us, np.nextafter(edges_us, -np.inf), np.nextafter(edges_us, np.inf)]
    return np.unique(np.concatenate([[0.0, 0.3], np.geomspace(0.5, 1e12, 400), *beside]).clip(0.0))


def judged(limits: FunctionLimits, runtimes_us: Float64Array) -> Verdicts:
    return limits.judge(np.zeros(len(runtimes_us), np.int64), runtimes_us)


def assert_label_follows(said: Verdicts, threshold: float, config: AnalysisConfig) -> None:
    """Flagged is what reaches the threshold and lost the minimum, or gained it where that is asked for."""
    reaches = said.score >= threshold
    is_slow = reaches & (said.lost_us >= config.min_anomaly_us)
    assert not (is_slow & ~said.is_anomaly & (said.lost_us > 0)).any()
    assert (reaches & said.is_costly == said.is_anomaly).all()
    if not config.fast_side:
        assert (said.is_anomaly <= is_slow).all()


@pytest.mark.parametrize("fast_side", [False, True])
@pytest.mark.parametrize("detector", DETECTORS)
@examples(40)
@given(some=clusters, threshold=thresholds, min_anomaly_us=least_us)
def test_flagged_is_what_reaches_the_threshold_and_lost_the_minimum(
    detector: str,
    fast_side: bool,
    some: list[tuple[int, int, int]],
    threshold: float | None,
    min_anomaly_us: int,
) -> None:
    config = AnalysisConfig(
        detector=detector, threshold=threshold, fast_side=fast_side, min_anomaly_us=min_anomaly_us
    )
    limits = limits_of(config, known(some))
    said = judged(limits, tried(limits))
    assert np.isfinite(said.score).all() and (said.score >= 0.0).all()
    assert_label_follows(said, config.usual_threshold, config)


@pytest.mark.parametrize("detector", DISTANCES)
@examples(60)
@given(some=clusters, threshold=thresholds)
def test_a_longer_call_never_scores_less(
    detector: str, some: list[tuple[int, int, int]], threshold: float | None
) -> None:
    limits = limits_of(AnalysisConfig(detector=detector, threshold=threshold), known(some))
    assert (np.diff(judged(limits, tried(limits)).score) >= 0.0).all()


@pytest.mark.parametrize("detector", DISTANCES)
@examples(60)
@given(some=clusters, threshold=thresholds)
def test_where_short_calls_are_looked_for_a_call_scores_more_on_either_side(
    detector: str, some: list[tuple[int, int, int]], threshold: float | None
) -> None:
    limits = limits_of(AnalysisConfig(detector=detector, threshold=threshold, fast_side=True), known(some))
    runtimes_us = tried(limits)
    score = judged(limits, runtimes_us).score
    is_short = runtimes_us < limits.expected_us[0]
    assert (np.diff(score[~is_short]) >= 0.0).all() and (np.diff(score[is_short]) <= 0.0).all()


@pytest.mark.parametrize("detector", ["hbos", "copod"])
@examples(60)
@given(some=clusters)
def test_beyond_the_last_ordinary_bin_a_longer_call_never_scores_less(
    detector: str, some: list[tuple[int, int, int]]
) -> None:
    limits = limits_of(AnalysisConfig(detector=detector), known(some))
    edges_us = limits.edges_us[0]
    runtimes_us = tried(limits)
    beyond = runtimes_us[runtimes_us >= edges_us[np.isfinite(edges_us)].max(initial=0.0)]
    assert (np.diff(judged(limits, beyond).score) >= 0.0).all()


def test_a_score_stands_for_the_same_whether_many_delays_are_near_or_none() -> None:
    """Where sixty delays lie beyond, the limit is lower; a young function has a higher one."""
    random = np.random.default_rng(1)
    ordinary = random.lognormal(7.0, 0.2, 20_000)
    for runtimes_us in (ordinary, np.append(ordinary, np.geomspace(4e3, 9e3, 60)), ordinary[:100]):
        counts = np.histogram(runtimes_us, EDGES_US)[0]
        clusters = [(int(bucket), 1, int(counts[bucket])) for bucket in np.flatnonzero(counts)]
        limits = limits_of(AnalysisConfig(min_anomaly_us=0), known(clusters))
        limit_us = limits.edges_us[0, 1]
        below, at, twice, median = judged(
            limits, np.array([0.999 * limit_us, limit_us, 2 * limit_us, limits.expected_us[0]])
        ).score
        assert median < 0.7 < 4.0 < below < 4.5 <= at < 4.51 < 5.0 < twice


def test_what_comparable_calls_take_decides_on_the_time_lost() -> None:
    """A function that takes 1 ms, and 80 ms where it is called from one place."""
    config = AnalysisConfig()
    counts = np.histogram(np.random.default_rng(1).lognormal(math.log(1000.0), 0.1, 5000), EDGES_US)[0]
    clusters = [(int(bucket), 1, int(counts[bucket])) for bucket in np.flatnonzero(counts)]
    limits = limits_of(config, known(clusters))
    timers, runtimes_us = np.zeros(2, np.int64), np.array([80_500.0, 82_000.0])
    usual = limits.judge(timers, runtimes_us)
    assert usual.is_anomaly.all()
    there = limits.judge(timers, runtimes_us, lambda of_function_us: np.full_like(of_function_us, 80_000.0))
    assert there.score.tolist() == usual.score.tolist()
    assert there.lost_us.tolist() == [500.0, 2000.0]
    assert there.is_anomaly.tolist() == [False, True]


def test_what_is_upheld_reaches_the_threshold_and_must_have_lost_enough() -> None:
    limits = limits_of(AnalysisConfig(), known([(60, 8, 1000)]))
    expected_us = limits.expected_us[0]
    said = judged(limits, expected_us + np.array([100.0, 1200.0, 1200.0, 1e9]))
    upheld = said.upheld(np.array([True, True, False, True]))
    is_ordinary = said.score < 4.5
    assert upheld.is_anomaly.tolist() == [False, True, not is_ordinary[2], True]
    assert upheld.score.tolist() == [said.score[0], max(said.score[1], 4.5), said.score[2], said.score[3]]


@pytest.mark.parametrize("detector", DETECTORS)
def test_of_a_function_to_ignore_and_of_an_unknown_one_nothing_is_said(detector: str) -> None:
    config = AnalysisConfig(detector=detector, ignore=("solve",))
    limits = limits_of(config, known([(60, 8, 1000)]))
    limits.reserve(2)
    said = limits.judge(np.array([0, 1]), np.array([1e9, 1e9]))
    assert not said.is_anomaly.any() and not said.score.any()
