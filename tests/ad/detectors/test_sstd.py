"""The paper's detector against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.detectors import Judgements, make_detector
from chimbuko.ad.detectors.sstd import Sstd
from chimbuko.core.config import METRICS, AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import PROFILE

runtimes = st.lists(st.integers(0, 10**9), min_size=2, max_size=40)


def table_of(*columns: list[int], metric: str = "exclusive") -> np.ndarray:
    table = PROFILE.empty(len(columns))
    for row, values in zip(table, columns, strict=True):
        row[PROFILE.slices[f"{metric}_us"]] = Moments.of(values).row()
    return table


def judge(table: np.ndarray, runtime_us: int, fast_side: bool = False) -> Judgements:
    sstd = Sstd(AnalysisConfig(fast_side=fast_side))
    return sstd.judge(sstd.limits(table, np.full(len(table), 6.0)).measures, np.array([float(runtime_us)]))


def limits(table: np.ndarray, metric: str = "exclusive") -> tuple[np.ndarray, np.ndarray]:
    """Lower limit, and the first runtime that is not ordinary any more."""
    edges_us = Sstd(AnalysisConfig(metric=metric)).limits(table, np.full(len(table), 6.0)).edges_us
    return edges_us[:, 0], edges_us[:, 1]


@settings(deadline=None)
@given(st.lists(runtimes, min_size=1, max_size=4), st.sampled_from(METRICS))
def test_limits_are_mean_and_sample_deviation(columns: list[list[int]], metric: str) -> None:
    lower, upper = limits(table_of(*columns, metric=metric), metric)
    for row, values in enumerate(columns):
        mean, reach = np.mean(values), 6.0 * np.std(values, ddof=1)
        assert lower[row] == pytest.approx(mean - reach, rel=1e-9, abs=1e-3)
        assert upper[row] == pytest.approx(mean + reach, rel=1e-9, abs=1e-3)


def test_nothing_is_outside_before_two_calls_are_known() -> None:
    lower, upper = limits(table_of([], [5]))
    assert np.all(lower == -math.inf) and np.all(upper == math.inf)


@settings(deadline=None)
@given(runtimes, st.integers(0, 10**9))
def test_score_is_distance_in_deviations(values: list[int], runtime_us: int) -> None:
    judgements = judge(table_of(values), runtime_us)
    mean, stddev = np.mean(values), np.std(values, ddof=1)
    assert judgements.seen[0] == len(values)
    assert judgements.expected_us[0] == pytest.approx(mean)
    assert judgements.spread_us[0] == pytest.approx(stddev, rel=1e-6, abs=1e-3)
    if stddev > 1e-3:
        distance = (runtime_us - mean) / stddev
        assert judgements.score[0] == pytest.approx(max(distance, 0.0), rel=1e-6)
        both_sides = judge(table_of(values), runtime_us, fast_side=True)
        assert both_sides.score[0] == pytest.approx(abs(distance), rel=1e-6)


def test_no_score_where_all_runtimes_are_equal() -> None:
    assert judge(table_of([7, 7, 7]), 7).score[0] == 0.0


@pytest.mark.parametrize("threshold", [0.0, -1.0, math.nan])
def test_a_threshold_that_is_not_positive_is_refused(threshold: float) -> None:
    for config in (AnalysisConfig(threshold=threshold), AnalysisConfig(thresholds=(("main", threshold),))):
        with pytest.raises(ConfigError, match="must be positive"):
            make_detector(config)


def test_unknown_detector_and_metric_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="'best' is unknown; choose one of robust, sstd"):
        make_detector(AnalysisConfig(detector="best"))
    with pytest.raises(ConfigError, match="exclusive, inclusive"):
        make_detector(AnalysisConfig(metric="median"))
