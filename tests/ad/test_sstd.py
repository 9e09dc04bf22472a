"""The paper's detector against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.detectors.sstd import Sstd
from chimbuko.config import METRICS, AnalysisConfig
from chimbuko.errors import ConfigError
from chimbuko.moments import Moments
from chimbuko.tables import PROFILE

runtimes = st.lists(st.integers(0, 10**9), min_size=2, max_size=40)


def table_of(*columns: list[int], metric: str = "exclusive") -> np.ndarray:
    table = PROFILE.empty(len(columns))
    for row, values in zip(table, columns, strict=True):
        row[PROFILE.slices[f"{metric}_us"]] = Moments.of(values).row()
    return table


@settings(deadline=None)
@given(st.lists(runtimes, min_size=1, max_size=4), st.sampled_from(METRICS))
def test_limits_are_mean_and_sample_deviation(columns: list[list[int]], metric: str) -> None:
    lower, upper = Sstd(6.0, metric).limits(table_of(*columns, metric=metric))
    for row, values in enumerate(columns):
        mean, reach = np.mean(values), 6.0 * np.std(values, ddof=1)
        assert lower[row] == pytest.approx(mean - reach, rel=1e-9, abs=1e-3)
        assert upper[row] == pytest.approx(mean + reach, rel=1e-9, abs=1e-3)


def test_nothing_is_outside_before_two_calls_are_known() -> None:
    lower, upper = Sstd(6.0, "exclusive").limits(table_of([], [5]))
    assert np.all(lower == -math.inf) and np.all(upper == math.inf)


@settings(deadline=None)
@given(runtimes, st.integers(0, 10**9))
def test_judgement_is_distance_in_deviations_and_time_lost(values: list[int], runtime_us: int) -> None:
    judgement = Sstd(6.0, "exclusive").judge(table_of(values)[0], float(runtime_us))
    mean, stddev = np.mean(values), np.std(values, ddof=1)
    assert judgement.seen == len(values)
    assert judgement.expected_us == pytest.approx(mean)
    assert judgement.spread_us == pytest.approx(stddev, rel=1e-6, abs=1e-3)
    assert judgement.severity_us == pytest.approx(max(runtime_us - mean, 0.0), abs=1e-3)
    if stddev > 1e-3:
        assert judgement.score == pytest.approx(abs(runtime_us - mean) / stddev, rel=1e-6)


def test_no_score_where_all_runtimes_are_equal() -> None:
    assert Sstd(6.0, "exclusive").judge(table_of([7, 7, 7])[0], 7.0).score == 0.0


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan])
def test_an_alpha_that_is_not_positive_is_refused(alpha: float) -> None:
    with pytest.raises(ConfigError, match="must be positive"):
        make_detector(AnalysisConfig(alpha=alpha))


def test_unknown_detector_and_metric_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="'hbos' is unknown; choose sstd"):
        make_detector(AnalysisConfig(detector="hbos"))
    with pytest.raises(ConfigError, match="exclusive, inclusive"):
        make_detector(AnalysisConfig(metric="median"))
