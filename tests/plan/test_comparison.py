"""What times of repetitions say, by hand and beside scipy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from chimbuko.plan.overhead import overhead

TIMES = st.lists(
    st.tuples(st.floats(1.0, 20.0), st.floats(1.0, 20.0), st.floats(1.0, 20.0)), min_size=2, max_size=15
)


def test_a_slowdown_is_positive_and_shares_add_up() -> None:
    found = overhead([10.0, 10.0, 10.0], [10.5, 10.4, 10.6], [10.4, 10.3, 10.5])
    assert found.tracing.share == pytest.approx(0.05)
    assert found.both.share == pytest.approx(0.04)
    assert found.analysis.share == pytest.approx(-0.01)
    assert found.traced.mean_s == pytest.approx(10.5)
    assert found.traced.deviation_s == pytest.approx(0.1)
    # 4.303 is the quantile of two degrees of freedom.
    assert found.tracing.interval == pytest.approx(
        (0.05 - 4.303 * 0.01 / 3**0.5, 0.05 + 4.303 * 0.01 / 3**0.5), abs=1e-5
    )


@settings(max_examples=40, deadline=None)
@given(TIMES, st.floats(0.0, 50.0))
def test_it_is_the_paired_t_test_and_what_all_of_a_round_have_in_common_falls_out(
    rounds: list[tuple[float, float, float]], slower_s: float
) -> None:
    application, traced, analysed = (list(times) for times in zip(*rounds, strict=True))
    found = overhead(application, traced, analysed)
    assert found.tracing.share + found.analysis.share == pytest.approx(found.both.share, abs=1e-9)
    if max(abs(a - b - traced[0] + application[0]) for a, b in zip(traced, application, strict=True)) > 1e-6:
        assert found.tracing.p == pytest.approx(stats.ttest_rel(traced, application).pvalue, abs=1e-6)
    disturbed = [[times[0] + slower_s, *times[1:]] for times in (application, traced, analysed)]
    mean_s = sum(application) / len(application)
    again = overhead(*disturbed)
    assert again.tracing.share * (mean_s + slower_s / len(application)) == pytest.approx(
        found.tracing.share * mean_s, abs=1e-6
    )


def test_equal_times_differ_by_nothing() -> None:
    found = overhead([2.0, 2.0], [2.0, 2.0], [3.0, 3.0])
    assert (found.tracing.share, found.tracing.p) == (0.0, 1.0)
    assert (found.analysis.share, found.analysis.interval, found.analysis.p) == (0.5, (0.5, 0.5), 0.0)
