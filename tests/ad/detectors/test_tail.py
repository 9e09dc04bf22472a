"""Where ordinary runtimes end, against a slow twin; and what must hold whatever the runtimes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from chimbuko.ad.kernels import tail
from chimbuko.core.buckets import BUCKETS, LN_EDGES, PER_DOUBLING
from chimbuko.core.kernels.buckets import bucket_of
from tests.plainpython import examples
from tests.reference.tail import SlowTail

EXAMPLES = examples(60)
BACKWARDS = np.ascontiguousarray(-LN_EDGES[::-1])
BACKWARDS.flags.writeable = False
USUAL_SHARE = float(stats.norm.sf(4.5))

# Clusters of calls: where they lie, over how many buckets, how many calls in each.
clusters = st.lists(
    st.tuples(st.integers(1, BUCKETS - 60), st.integers(1, 40), st.integers(1, 3000)), min_size=1, max_size=4
)


def counts_of(some: list[tuple[int, int, int]]) -> np.ndarray:
    """MappedSemaphore-shaped clusters."""
    counts = np.zeros(BUCKETS)
    for start, width, calls in some:
        shape = np.sin(np.pi * (np.arange(width) + 0.5) / width) ** 2
        counts[start : start + width] += np.ceil(calls * shape)
    return counts


def counts_of_runtimes(runtimes_us: np.ndarray) -> np.ndarray:
    return np.bincount([bucket_of(float(us)) for us in runtimes_us], minlength=BUCKETS).astype(float)


def limit_of(counts: np.ndarray, edges: np.ndarray, share: float) -> tuple[float, np.ndarray]:
    limits, fits = np.empty(1), np.empty((1, tail.FIT_CELLS))
    tail.limits_beyond(counts[None], edges, np.array([share]), limits, fits)
    return float(limits[0]), fits[0]


def assert_twins_agree(counts: np.ndarray, edges: np.ndarray, share: float) -> None:
    limit, fit = limit_of(counts, edges, share)
    slow, slow_fit = SlowTail(counts.tolist(), edges.tolist()).limit(share)
    assert limit == pytest.approx(slow, abs=1e-8)
    assert fit[tail.SEEN] == counts.sum()
    if slow_fit is None:
        assert fit[tail.SLOPE] == 0.0
        return
    line = [slow_fit.centre_z, slow_fit.centre, slow_fit.slope, slow_fit.mode_share]
    assert fit[: tail.MEDIAN].tolist() == pytest.approx(line, abs=1e-8)


@EXAMPLES
@given(clusters, st.floats(2.0, 7.0))
def test_limits_are_those_of_the_slow_twin(some: list[tuple[int, int, int]], threshold: float) -> None:
    """Towards long runtimes, and towards short ones."""
    counts, share = counts_of(some), float(stats.norm.sf(threshold))
    assert_twins_agree(counts, LN_EDGES, share)
    assert_twins_agree(np.ascontiguousarray(counts[::-1]), BACKWARDS, share)


def drawn(name: str, calls: int) -> np.ndarray:
    """Runtimes of one law, one in a thousand of them delayed."""
    random = np.random.default_rng([calls, *name.encode()])
    runtimes_us = {
        "gamma": lambda: random.gamma(8.0, 100.0, calls),
        "log-normal": lambda: random.lognormal(6.0, 0.6, calls),
        "two modes": lambda: 300.0 * random.choice([1.0, 2.0], calls) * random.lognormal(0.0, 0.1, calls),
        "rare mode": lambda: (
            300.0 * random.choice([1.0, 2.0], calls, p=[0.95, 0.05]) * random.lognormal(0.0, 0.1, calls)
        ),
        "always alike": lambda: np.full(calls, 200.0),
        "below a µs": lambda: random.uniform(0.0, 1.5, calls),
    }[name]()
    return runtimes_us * np.where(random.random(calls) < 0.001, random.uniform(5.0, 20.0, calls), 1.0)


LAWS = ("gamma", "log-normal", "two modes", "rare mode", "always alike", "below a µs")


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("calls", [40, 300, 20_000])
def test_limits_of_drawn_runtimes_are_those_of_the_slow_twin(law: str, calls: int) -> None:
    assert_twins_agree(counts_of_runtimes(drawn(law, calls)), LN_EDGES, USUAL_SHARE)


@pytest.mark.parametrize("law", ["gamma", "log-normal", "two modes", "rare mode"])
def test_the_limit_lies_between_the_ordinary_calls_and_the_delayed_ones(law: str) -> None:
    runtimes_us = drawn(law, 20_000)
    limit = math.exp(limit_of(counts_of_runtimes(runtimes_us), LN_EDGES, USUAL_SHARE)[0])
    assert 5 <= (runtimes_us > limit).sum() <= 30


@EXAMPLES
@given(clusters, st.integers(1, 5))
def test_twice_as_long_runtimes_have_twice_the_limit(
    some: list[tuple[int, int, int]], doublings: int
) -> None:
    counts = counts_of([(start % 100 + 1, width, calls) for start, width, calls in some])
    limit, fit = limit_of(counts, LN_EDGES, USUAL_SHARE)
    shifted, shifted_fit = limit_of(np.roll(counts, doublings * PER_DOUBLING), LN_EDGES, USUAL_SHARE)
    assert shifted == pytest.approx(limit + doublings * math.log(2.0), abs=1e-8)
    assert shifted_fit[tail.SLOPE] == pytest.approx(fit[tail.SLOPE], abs=1e-8)


@EXAMPLES
@given(clusters, st.integers(1, 100))
def test_the_limit_stays_above_the_median_however_many_calls(
    some: list[tuple[int, int, int]], times: int
) -> None:
    limit, fit = limit_of(times * counts_of(some), LN_EDGES, USUAL_SHARE)
    assert limit >= fit[tail.MEDIAN]


def test_there_is_no_limit_before_a_function_is_known() -> None:
    counts = np.zeros(BUCKETS)
    assert limit_of(counts, LN_EDGES, USUAL_SHARE)[0] == math.inf
    counts[50] = tail.FEWEST_CALLS - 1
    limit, fit = limit_of(counts, LN_EDGES, USUAL_SHARE)
    assert (limit, fit[tail.SLOPE], fit[tail.SEEN]) == (math.inf, 0.0, tail.FEWEST_CALLS - 1)
    counts[50] += 1
    assert limit_of(counts, LN_EDGES, USUAL_SHARE)[0] < math.inf


def test_delays_do_not_raise_the_limit() -> None:
    """What poisons the mean and the spread: 10,000 calls, a few of them thousands of times as long."""
    runtimes_us = np.random.default_rng(1).gamma(8.0, 100.0, 10_000)
    clean, _ = limit_of(counts_of_runtimes(runtimes_us), LN_EDGES, USUAL_SHARE)
    for delayed in (2, 10, 30):
        runtimes_us[:delayed] = 1e7
        limit, _ = limit_of(counts_of_runtimes(runtimes_us), LN_EDGES, USUAL_SHARE)
        assert limit < clean + math.log(1.2)


@EXAMPLES
@given(st.floats(1e-290, 1.0 - 1e-9))
def test_quantiles_are_those_of_the_normal_distribution(share: float) -> None:
    assert tail.tail_quantile(share) == pytest.approx(stats.norm.isf(share), rel=1e-9, abs=1e-9)
    assert tail.upper_tail(tail.tail_quantile(share)) == pytest.approx(share, rel=1e-6)
