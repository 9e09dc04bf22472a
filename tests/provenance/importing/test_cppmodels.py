"""What the C++ Chimbuko records of runtimes becomes moments and buckets that say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import schema_of
from chimbuko.provenance.export.version2 import run_statistics
from chimbuko.provenance.importing.cppmodels import final_model_of, learned_of

RUNTIMES = st.lists(st.floats(1, 1e7), min_size=1, max_size=30)


@given(RUNTIMES)
@settings(deadline=None)
def test_statistics_become_the_moments_that_they_were_made_of(runtimes: list[float]) -> None:
    moments = Moments.of(runtimes)
    learned = learned_of(run_statistics(moments))
    assert learned.detector == "sstd"
    assert learned.buckets is None
    theirs, ours = run_statistics(learned.moments), run_statistics(moments)
    assert theirs == pytest.approx(ours, rel=1e-9, abs=1e-9)


def test_statistics_with_numbers_that_are_none() -> None:
    learned = learned_of({"count": 4, "mean": 2.0, "stddev": None, "maximum": 2.2e-307, "minimum": None})
    assert learned.moments == Moments(4, 2.0, 0.0, 0.0, 0.0, 2.0, 2.0)
    assert learned_of({"count": 0, "mean": None}).moments == Moments()


@pytest.mark.parametrize(
    "histogram",
    [
        {"Bin Counts": [3, 0, 1], "First edge": 10.0, "Bin width": 2.0, "Min": 10.5, "Max": 15.5},
        {"Histogram Bin Counts": [3, 0, 1], "Histogram Bin Edges": [10.0, 12.0, 14.0, 16.0]},
        {"Bin Counts": [3, 0, 1], "Bin Edges": [10.0, 12.0, 14.0, 16.0], "Min": 10.5, "Max": 15.5},
    ],
)
def test_histograms_of_all_years(histogram: dict[str, Any]) -> None:
    learned = learned_of({"histogram": histogram, "internal_global_threshold": 1.4})
    assert learned.detector == "hbos"
    assert (learned.moments.n, learned.moments.mean) == (4, 12.0)
    assert learned.moments.stddev == pytest.approx(np.std([11, 11, 11, 15], ddof=1))
    assert (learned.moments.minimum, learned.moments.maximum) in ((10.5, 15.5), (10.0, 16.0))
    assert learned.buckets is not None
    middles = (EDGES_US[:-1] + EDGES_US[1:]) / 2
    assert learned.buckets.sum() == 4
    assert (learned.buckets * middles).sum() / 4 == pytest.approx(12.0, rel=0.02)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(0, BUCKETS - 40))
def test_buckets_of_ours_stay_what_they_are(counts: list[int], first: int) -> None:
    edges = EDGES_US[first : first + len(counts) + 1].tolist()
    learned = learned_of({"histogram": {"Bin Counts": counts, "Bin Edges": edges}})
    assert learned.buckets is not None
    expected = np.zeros(BUCKETS)
    expected[first : first + len(counts)] = counts
    np.testing.assert_array_equal(learned.buckets, expected)


def test_no_calls_at_all() -> None:
    learned = learned_of({"histogram": {"Bin Counts": [], "Bin Edges": [0.5]}})
    assert learned.moments == Moments()
    assert learned.buckets is not None
    assert not learned.buckets.any()


@pytest.mark.parametrize(
    "params",
    [
        {"mean": 1.0},
        {"count": "many"},
        {"histogram": {"Bin Counts": [1, 2], "Bin Edges": [0.0, 1.0]}},
        {"histogram": {"Bin Counts": [1]}},
        {"histogram": {"Bin Counts": [1], "Bin Edges": [2.0, 1.0]}},
    ],
)
def test_what_is_neither_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"count|histogram"):
        learned_of(params)


def test_a_row_holds_what_is_known_where_the_metric_stands() -> None:
    place, learned = final_model_of(
        {"pid": 1, "fid": 4, "func_name": "solve", "model": {"count": 3, "mean": 5}}
    )
    assert place == (1, "solve")
    schema = schema_of("sstd")
    row = learned.row("sstd", "inclusive")
    assert Moments.from_row(row[schema.slices["inclusive_us"]]).mean == 5
    assert Moments.from_row(row[schema.slices["exclusive_us"]]) == Moments()
