from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.query.steps import rank_statistics


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50))
def test_statistics_of_counted_values_are_those_of_the_values(values: list[int]) -> None:
    rows = [(0, 3, value, times, 0.5 * times, 9) for value, times in sorted(Counter(values).items())]
    [found] = rank_statistics(rows)
    moments = Moments.of(values)
    assert (found.program, found.rank, found.steps, found.total) == (0, 3, len(values), sum(values))
    assert (found.minimum, found.maximum, found.last_step) == (min(values), max(values), 9)
    assert found.severity_us == 0.5 * len(values)
    assert (found.mean, found.stddev) == pytest.approx((moments.mean, moments.stddev), abs=1e-9)
    assert found.skewness == pytest.approx(moments.skewness, rel=1e-6, abs=1e-6)
    assert found.kurtosis == pytest.approx(moments.kurtosis, rel=1e-6, abs=1e-6)


def test_no_steps_have_no_statistics() -> None:
    assert rank_statistics([]) == []
