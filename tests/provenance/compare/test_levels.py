"""Levels of runtimes, their course, and what is more than chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.statistics.student import two_sided_p
from chimbuko.provenance.compare.effects import adjusted, half_width_95, shifts_between
from chimbuko.provenance.compare.levels import PARTS, Level, level_of, level_of_mean, middle_mean
from chimbuko.provenance.compare.runcomparison import Rate, has_more
from chimbuko.provenance.compare.runprofile import pair_functions


def counts_of(runtimes_us: np.ndarray) -> np.ndarray:
    """By bucket, as a clock of whole µs sees them."""
    return np.histogram(np.floor(runtimes_us), EDGES_US)[0].astype(np.float64)


@pytest.mark.parametrize("median_us", [2.3, 7.0, 40.0, 9000.0])
def test_a_shift_is_seen_whatever_the_clock_can_report(median_us: float) -> None:
    random = np.random.default_rng(1)
    drawn = median_us * np.exp(0.3 * random.standard_normal(200_000))
    clock = random.random(len(drawn))
    before, after = (middle_mean(counts_of(factor * drawn + clock)) for factor in (1.0, 1.1))
    assert np.expm1(after - before) == pytest.approx(0.1, abs=0.02)


def test_long_calls_have_no_part_in_the_level() -> None:
    random = np.random.default_rng(2)
    drawn = 500.0 * np.exp(0.1 * random.standard_normal(10_000))
    disturbed = drawn.copy()
    disturbed[:1000] += 4000.0
    assert middle_mean(counts_of(disturbed)) == pytest.approx(middle_mean(counts_of(drawn)), abs=0.02)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_the_course_of_an_even_run_is_even(grown: list[int]) -> None:
    even = np.zeros(BUCKETS)
    even[40:60] = 10.0
    level = level_of(np.cumsum(grown)[:, None] * even)
    assert level is not None and level.course is not None
    assert level.course == pytest.approx(np.full(PARTS, level.ln_us))
    assert level.degrees <= len(grown) - 1 + 1e-9


def test_without_calls_there_is_no_level() -> None:
    assert level_of(np.zeros((3, BUCKETS))) is None
    assert level_of(np.zeros((0, BUCKETS))) is None
    assert level_of_mean(0, 0.0, 0.0) is None


@given(st.floats(0.1, 8.0), st.floats(4.0, 60.0))
def test_probabilities_are_those_of_students_t(t: float, degrees: float) -> None:
    (p_value,) = two_sided_p(np.array([t]), np.array([degrees]))
    assert p_value == pytest.approx(2 * stats.t.sf(t, degrees))
    assert half_width_95(np.array([degrees]))[0] == pytest.approx(stats.t.ppf(0.975, degrees))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_many_tests_are_adjusted_as_by_holm(p_values: list[float]) -> None:
    found = adjusted(np.array(p_values))
    count = len(p_values)
    for at, p_value in enumerate(p_values):
        lower = [other for other in p_values if other <= p_value]
        expected = max(min(1.0, (count - rank) * other) for rank, other in enumerate(sorted(lower)))
        assert found[at] == pytest.approx(expected)


def test_too_few_calls_are_not_judged() -> None:
    few, many = Level(1.0, 19, 0.01), Level(2.0, 1000, 0.01)
    found = shifts_between([few, many, None], [many, many, many], True)
    assert np.isnan(found.net).tolist() == [True, False, True]
    assert found.p_value[0] == 1.0


@given(st.integers(0, 1000), st.integers(0, 10_000))
def test_bounds_hold_the_rate(anomalies: int, normal: int) -> None:
    rate = Rate.of(anomalies, anomalies + normal)
    assert 0 <= rate.low <= rate.per_million <= rate.high <= 1e6


def test_twice_as_many_anomalies_are_more_if_they_are_many() -> None:
    assert has_more(Rate.of(50, 100_000), Rate.of(150, 100_000))
    assert not has_more(Rate.of(1, 100_000), Rate.of(4, 100_000))
    assert not has_more(Rate.of(5000, 100_000), Rate.of(6000, 100_000))


def test_functions_are_matched_without_lines_where_that_is_clear() -> None:
    before = [
        ("heat", "f [{a.c} {3,0}]"),
        ("heat", "g [{a.c} {9,0}]"),
        ("heat", "g [{b.c} {9,0}]"),
        ("heat", "h"),
    ]
    after = [("heat2", "f [{a.c} {7,0}]"), ("heat2", "g [{a.c} {9,0}]"), ("heat2", "g [{b.c} {11,0}]")]
    paired = pair_functions(before, after)
    assert paired == dict(zip(before[:3], after, strict=True))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # All of a file moved, by as many lines as lie between two of its functions.
        (["f [{a.py}{10}]", "f [{a.py}{20}]"], ["f [{a.py}{20}]", "f [{a.py}{30}]"]),
        (["f [{/old/a.c} {10,0}-{12,1}]", "g"], ["f [{/new/a.c} {11,0}-{13,1}]", "g"]),
        # The tracer's names, and those of an annotated program's file.
        (["f [{etl.py}{2}]", "f [{grid.py}{9}]"], ["f [etl]", "f [pkg.grid]"]),
        (["Grid.step [{etl.py}{2}]"], ["Grid.step [__main__]"]),
        (["step [{solver.c} {3,0}]"], ["step [solver.c]"]),
    ],
)
def test_functions_that_moved_or_are_named_otherwise_are_the_same(
    before: list[str], after: list[str]
) -> None:
    paired = pair_functions([("etl", name) for name in before], [("generic", name) for name in after])
    assert paired == {("etl", a): ("generic", b) for a, b in zip(before, after, strict=True)}


def test_functions_that_cannot_be_told_apart_are_not_paired() -> None:
    before = [("a", "f [{a.py}{10}]"), ("a", "f [{a.py}{20}]"), ("a", "g [{a.py}{30}]")]
    after = [
        ("a", "f [{a.py}{12}]"),
        ("a", "f [{a.py}{20}]"),
        ("a", "f [{a.py}{40}]"),
        ("a", "g [{b.py}{1}]"),
    ]
    # One is where it was; which of the others the second is nobody knows.
    assert pair_functions(before, after) == {before[1]: after[1], before[2]: after[3]}
