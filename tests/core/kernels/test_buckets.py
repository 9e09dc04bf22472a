"""Counting runtimes in buckets, against NumPy's search and sorted lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.buckets import BUCKETS, EDGES_US, LN_EDGES, PER_DOUBLING
from chimbuko.core.kernels.buckets import bucket_of, count_above, exceeded_by, scaled
from tests.plainpython import examples

EXAMPLES = examples(200)
runtimes = st.one_of(
    st.integers(0, 1 << 40).map(float), st.floats(0.0, 1e12), st.sampled_from(EDGES_US[1:].tolist())
)


def bucket_by_search(runtime_us: float) -> int:
    """The last edge at or below it."""
    return int(np.clip(np.searchsorted(EDGES_US, runtime_us, side="right") - 1, 0, BUCKETS - 1))


@EXAMPLES
@given(runtimes)
def test_a_bucket_holds_its_lower_edge_but_not_its_upper_one(runtime_us: float) -> None:
    for value in (runtime_us, np.nextafter(runtime_us, 0.0), np.nextafter(runtime_us, np.inf)):
        assert bucket_of(float(value)) == bucket_by_search(float(value))


def test_edges_widen_with_the_runtime() -> None:
    assert len(EDGES_US) == BUCKETS + 1
    widths = EDGES_US[2:-1] / EDGES_US[1:-2]
    assert widths.min() > 1.06 and widths.max() < 1.13
    assert [bucket_of(us) for us in (0.0, 0.9, 1.0, 1e300)] == [0, 0, 1, BUCKETS - 1]
    np.testing.assert_array_equal(LN_EDGES, np.log(EDGES_US))


def counts_of(runtimes_us: list[float]) -> np.ndarray:
    counts = np.zeros(BUCKETS)
    for runtime_us in runtimes_us:
        counts[bucket_of(runtime_us)] += 1.0
    return counts


@EXAMPLES
@given(st.lists(runtimes, max_size=30))
def test_counts_above_are_those_of_this_bucket_and_all_higher_ones(runtimes_us: list[float]) -> None:
    above = np.empty(BUCKETS + 1)
    highest = count_above(counts_of(runtimes_us), above)
    assert highest == max(map(bucket_by_search, runtimes_us), default=-1)
    for bucket in range(1, BUCKETS):
        assert above[bucket] == sum(runtime_us >= EDGES_US[bucket] for runtime_us in runtimes_us)
    assert (above[0], above[BUCKETS]) == (len(runtimes_us), 0.0)


@EXAMPLES
@given(st.lists(runtimes, min_size=1, max_size=30), st.floats(0.0, 1.0))
def test_what_a_rank_exceeds_lies_in_the_bucket_of_that_rank(runtimes_us: list[float], share: float) -> None:
    counts, above = counts_of(runtimes_us), np.empty(BUCKETS + 1)
    count_above(counts, above)
    rank = share * len(runtimes_us)
    value_us = exceeded_by(above, EDGES_US, rank)
    # Taken as spread evenly over each bucket, exactly so many calls lie above it.
    bucket = bucket_by_search(np.nextafter(value_us, 0.0))
    inside = (EDGES_US[bucket + 1] - value_us) / (EDGES_US[bucket + 1] - EDGES_US[bucket])
    if rank > 0:
        assert above[bucket + 1] + inside * counts[bucket] == pytest.approx(rank, abs=1e-6)


shifts = st.floats(-3.0, 3.0)
counted = st.dictionaries(st.integers(1, BUCKETS - 60), st.integers(1, 1000), min_size=1, max_size=8)


def moved(counts: np.ndarray, ln_factor: float) -> np.ndarray:
    scaled(counts, ln_factor, into := np.full(BUCKETS, np.nan))
    return into


@EXAMPLES
@given(counted, shifts)
def test_scaled_counts_are_as_many_and_lie_where_the_runtimes_then_would(
    some: dict[int, int], ln_factor: float
) -> None:
    counts = np.zeros(BUCKETS)
    counts[list(some)] = list(some.values())
    into = moved(counts, ln_factor)
    assert into.sum() == pytest.approx(counts.sum())
    # Whatever edge one asks at: as many calls above it as were above the edge divided by the factor.
    for bucket in range(2, BUCKETS, 5):
        before = LN_EDGES[bucket] - ln_factor
        at = int(np.clip(np.searchsorted(LN_EDGES, before, side="right") - 1, 0, BUCKETS - 1))
        inside = np.clip((LN_EDGES[at + 1] - before) / (LN_EDGES[at + 1] - LN_EDGES[at]), 0.0, 1.0)
        expected = counts[at + 1 :].sum() + inside * counts[at]
        assert into[bucket:].sum() == pytest.approx(expected, abs=1e-6)


@EXAMPLES
@given(counted, st.integers(-2, 3))
def test_scaling_by_doublings_moves_whole_buckets(some: dict[int, int], doublings: int) -> None:
    counts = np.zeros(BUCKETS)
    counts[[bucket + 2 * PER_DOUBLING for bucket in some]] = list(some.values())
    np.testing.assert_allclose(
        moved(counts, doublings * np.log(2.0)), np.roll(counts, doublings * PER_DOUBLING), atol=1e-9
    )
