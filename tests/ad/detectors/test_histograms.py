"""HBOS and COPOD against a slow twin, and against the C++ system's definitions where those fail."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.detectors import Detector, make_detector
from chimbuko.ad.kernels import histogram
from chimbuko.ad.kernels.tail import FEWEST_CALLS
from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import BUCKETED_PROFILE
from tests.ad.tables import is_ordinary, table_of
from tests.plainpython import examples
from tests.reference.cpp_histograms import CppHistogram, copod_flags, hbos_flags
from tests.reference.histograms import SlowHistogram

NAMES = ("hbos", "copod")
DETECTORS = {name: make_detector(AnalysisConfig(detector=name)) for name in NAMES}
THRESHOLD = 0.99

clusters = st.lists(
    st.tuples(st.integers(1, BUCKETS - 60), st.integers(1, 40), st.integers(1, 3000)), min_size=1, max_size=5
)


def edges_of(name: str, runtimes_us: np.ndarray, threshold: float = THRESHOLD) -> np.ndarray:
    return DETECTORS[name].limits(table_of(runtimes_us), np.array([threshold])).edges_us[0]


def flags(name: str, runtimes_us: np.ndarray, judged_us: np.ndarray) -> np.ndarray:
    edges_us = edges_of(name, runtimes_us)
    return np.array([not is_ordinary(edges_us, us) for us in judged_us])


def spans_of(edges_us: np.ndarray) -> list[tuple[float, float]]:
    finite = edges_us[np.isfinite(edges_us)].reshape(-1, 2)
    return [(float(begin), float(end)) for begin, end in finite]


@pytest.mark.parametrize("name", NAMES)
@examples(60)
@given(some=clusters, threshold=st.floats(0.5, 1.2))
def test_scores_and_spans_are_those_of_the_slow_twin(
    name: str, some: list[tuple[int, int, int]], threshold: float
) -> None:
    table = BUCKETED_PROFILE.empty(1)
    counts = table[0, BUCKETED_PROFILE.slices["buckets"]]
    for start, width, calls in some:
        counts[start : start + width] += calls
    limits = DETECTORS[name].limits(table, np.array([threshold]))
    if counts.sum() < FEWEST_CALLS:
        assert limits.edges_us[0].tolist() == [-math.inf, *[math.inf] * (histogram.EDGES - 1)]
        return
    slow = SlowHistogram(counts, threshold, name == "copod")
    spans, own = slow.spans(), limits.measures[0]
    assert own[histogram.COUNT] == len(slow.scores)
    assert own[histogram.MEDIAN] == limits.expected_us[0] == pytest.approx(slow.median)
    assert own[histogram.SPREAD] == pytest.approx(slow.spread)
    bins = own[histogram.SCORES : histogram.SCORES + len(slow.scores)]
    # Where a share is 0 but for rounding, the score is the highest or near it.
    most = 0.4 * slow.outside
    np.testing.assert_allclose(np.minimum(bins, most), np.minimum(slow.scores, most), rtol=1e-6, atol=1e-6)
    assert own[histogram.OUTSIDE] == pytest.approx(slow.outside)
    most = histogram.EDGES // 2
    if len(spans) > most:
        spans = [(spans[0][0], spans[-most][1]), *spans[1 - most :]]
    np.testing.assert_allclose(spans_of(limits.edges_us[0]), spans, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_has_the_score_of_its_bin(name: str) -> None:
    runtimes_us = np.random.default_rng(1).gamma(8.0, 100.0, 5000)
    table = table_of(runtimes_us)
    measures = DETECTORS[name].limits(table, np.array([THRESHOLD])).measures
    slow = SlowHistogram(table[0, BUCKETED_PROFILE.slices["buckets"]], THRESHOLD, name == "copod")
    judged_us = np.array([0.0, 100.0, 500.0, 800.0, 1500.0, 2000.0, 1e6])
    judged = DETECTORS[name].judge(np.repeat(measures, len(judged_us), axis=0), judged_us)
    np.testing.assert_allclose(judged.score, [slow.score(us) for us in judged_us], rtol=1e-6)
    assert judged.score[0] == 0.0
    assert judged.score[-1] == slow.outside > THRESHOLD > judged.score[-2] > judged.score[3]
    assert judged.expected_us[0] == pytest.approx(np.median(runtimes_us), rel=0.05)
    assert judged.spread_us[0] == pytest.approx(runtimes_us.std(), rel=0.1)
    assert judged.seen[0] == 5000


@pytest.mark.parametrize("name", NAMES)
def test_young_functions_are_judged_with_care_or_not_at_all(name: str) -> None:
    few = np.random.default_rng(1).normal(1000.0, 20.0, int(FEWEST_CALLS) - 1)
    assert is_ordinary(edges_of(name, few), 1e9)
    measures = DETECTORS[name].limits(table_of(few), np.array([THRESHOLD])).measures
    assert DETECTORS[name].judge(measures, np.array([1e9])).score[0] == 0.0
    edges_us = edges_of(name, np.append(few, [1000.0] * 20))
    assert is_ordinary(edges_us, 2900.0) and not is_ordinary(edges_us, 3200.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_lower_threshold_flags_more(name: str) -> None:
    runtimes_us = np.random.default_rng(1).lognormal(8.0, 0.5, 10_000)
    upper = [spans_of(edges_of(name, runtimes_us, threshold))[-1][1] for threshold in (0.7, 0.85, 0.99)]
    assert upper == sorted(upper) and upper[2] > 1.05 * upper[0]


@pytest.mark.parametrize("name", NAMES)
def test_few_of_the_ordinary_calls_are_flagged_on_either_side(name: str) -> None:
    random = np.random.default_rng(1)
    edges_us = edges_of(name, random.normal(10_000.0, 500.0, 20_000))
    fresh = random.normal(10_000.0, 500.0, 20_000)
    assert sum(not is_ordinary(edges_us, us) for us in fresh) <= 6
    assert not is_ordinary(edges_us, 6000.0) and not is_ordinary(edges_us, 14_000.0)


def gaussian_with_repeats(repeats: int) -> np.ndarray:
    """10,000 calls, and some identical ones 40 standard deviations away."""
    runtimes_us = np.random.default_rng(1).normal(1000.0, 50.0, 10_000)
    return np.append(runtimes_us, np.full(repeats, 3000.0))


@pytest.mark.parametrize("repeats", [2, 5, 10])
@pytest.mark.parametrize("name", NAMES)
def test_repeated_delays_are_found(name: str, repeats: int) -> None:
    """In the C++ system's HBOS two equal delays have a lower score than a single call in the tail."""
    runtimes_us = gaussian_with_repeats(repeats)
    assert not hbos_flags(runtimes_us)[-repeats:].any()
    assert flags(name, runtimes_us, runtimes_us[-repeats:]).all()


def test_equal_counts_are_all_ordinary() -> None:
    """In the C++ system's the least score is then also the highest, and everything beyond the threshold."""
    runtimes_us = np.repeat(np.linspace(1000.0, 2000.0, 200), 5)
    assert hbos_flags(runtimes_us).all()
    assert not flags("hbos", runtimes_us, runtimes_us).any()


@pytest.mark.parametrize("name", NAMES)
def test_one_huge_value_hides_no_other(name: str) -> None:
    """In the C++ system's it leaves one bin to all the others."""
    random = np.random.default_rng(1)
    delayed = random.uniform(8000.0, 20_000.0, 10)
    runtimes_us = np.concatenate([random.normal(1000.0, 50.0, 10_000), delayed, [1e9]])
    theirs = {"hbos": hbos_flags, "copod": copod_flags}[name](runtimes_us)
    assert theirs[-1] and not theirs[:-1].any()
    assert flags(name, runtimes_us, np.append(delayed, 1e9)).all()


def test_copod_finds_more_than_the_longest_of_many_delays() -> None:
    """In the C++ system's each delay makes those that are shorter less unlikely than the longest."""
    random = np.random.default_rng(1)
    delayed = np.linspace(5000.0, 20_000.0, 10)
    runtimes_us = np.append(random.normal(1000.0, 50.0, 10_000), delayed)
    assert copod_flags(runtimes_us)[-10:].sum() <= 2
    assert flags("copod", runtimes_us, delayed).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_call_between_two_peaks_is_found(name: str) -> None:
    """In the C++ system's COPOD it is in neither tail."""
    random = np.random.default_rng(1)
    modes = [random.normal(200_000.0, 5000.0, 5000), random.normal(400_000.0, 5000.0, 5000)]
    runtimes_us = np.concatenate([*modes, [300_000.0]])
    assert not copod_flags(runtimes_us)[-1]
    assert flags(name, runtimes_us, np.array([300_000.0, 200_000.0, 400_000.0])).tolist() == [
        True,
        False,
        False,
    ]


def test_what_is_merged_is_the_same_in_any_order() -> None:
    """The C++ system's histograms are not, for each merge moves the bins."""
    random = np.random.default_rng(1)
    parts = [random.gamma(4.0, 250.0 * scale, 1000) for scale in (1.0, 3.0, 1.5)]
    one, two, three = (CppHistogram.of(part, 200) for part in parts)
    first, second = one.merge(two).merge(three), three.merge(one).merge(two)
    assert np.abs(first.counts - second.counts).max() > 0.5
    results = []
    for order in ((0, 1, 2), (2, 0, 1)):
        table = BUCKETED_PROFILE.empty(1)
        for number in order:
            BUCKETED_PROFILE.merge(table, [0], table_of(parts[number]))
        results.append([DETECTORS[name].limits(table, np.array([THRESHOLD])).edges_us for name in NAMES])
    np.testing.assert_array_equal(results[0], results[1])


def test_of_too_many_spans_the_highest_are_kept_apart() -> None:
    modes_us = 10_000.0 * 1.35 ** np.arange(10)
    edges_us = edges_of("hbos", np.repeat(modes_us, 1000))
    assert np.isfinite(edges_us).all()
    between_us = (modes_us[1:] + modes_us[:-1]) / 2
    is_apart = [not is_ordinary(edges_us, us) for us in between_us]
    assert is_apart == sorted(is_apart) and sum(is_apart) == histogram.EDGES // 2 - 1
    assert all(is_ordinary(edges_us, us) for us in modes_us)


def test_functions_are_judged_one_by_one() -> None:
    random = np.random.default_rng(1)
    rows = [random.gamma(4.0, 100.0, calls) for calls in (10, 100, 5000)]
    thresholds = np.array([0.99, 0.9, 0.95])
    for detector in DETECTORS.values():
        assert_same_alone(detector, rows, thresholds)


def assert_same_alone(detector: Detector, rows: list[np.ndarray], thresholds: np.ndarray) -> None:
    together = detector.limits(table_of(*rows), thresholds)
    for number, row in enumerate(rows):
        alone = detector.limits(table_of(row), thresholds[number : number + 1])
        np.testing.assert_array_equal(alone.edges_us[0], together.edges_us[number])
        np.testing.assert_array_equal(alone.measures[0], together.measures[number])


def test_bins_follow_no_edge_of_the_buckets() -> None:
    """Each call lies somewhere in its bucket; bins that cover a bucket together hold what it holds."""
    counts = np.zeros(BUCKETS)
    counts[[60, 64]] = [100.0, 50.0]
    slow = SlowHistogram(counts, THRESHOLD, is_copod=False)
    shares = 2.0**-slow.bits
    inside = (slow.edges[:-1] >= EDGES_US[60]) & (slow.edges[1:] <= EDGES_US[61])
    assert 150 * shares[inside].sum() == pytest.approx(100.0, rel=0.1)
