"""Moments against NumPy and SciPy, and the laws of merging."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.statistics.moments import Moments
from tests.plainpython import examples

EXAMPLES = examples(150)

values = st.lists(st.integers(0, 10**7).map(float), max_size=50)
"""Runtimes in µs and counts: whole numbers."""


def assert_close(one: Moments, other: Moments) -> None:
    assert (one.n, one.minimum, one.maximum) == (other.n, other.minimum, other.maximum)
    scale = max(abs(one.maximum), 1.0) if one.n else 1.0
    for name, power in (("mean", 1), ("m2", 2), ("m3", 3), ("m4", 4)):
        allowed = 1e-9 * max(one.n, 1.0) * scale**power
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=allowed)


@EXAMPLES
@given(values, values)
def test_merging_equals_taking_all_at_once(first: list[float], second: list[float]) -> None:
    assert_close(Moments.of(first).merge(Moments.of(second)), Moments.of(first + second))


@EXAMPLES
@given(values, values)
def test_merging_is_commutative(first: list[float], second: list[float]) -> None:
    one, other = Moments.of(first), Moments.of(second)
    assert_close(one.merge(other), other.merge(one))


@EXAMPLES
@given(values, values, values)
def test_merging_is_associative(first: list[float], second: list[float], third: list[float]) -> None:
    a, b, c = Moments.of(first), Moments.of(second), Moments.of(third)
    assert_close(a.merge(b).merge(c), a.merge(b.merge(c)))


@EXAMPLES
@given(values)
def test_nothing_is_the_identity(some: list[float]) -> None:
    moments = Moments.of(some)
    assert moments.merge(Moments()) == moments == Moments().merge(moments)


@EXAMPLES
@given(values.filter(lambda some: len(set(some)) > 1))
def test_statistics_are_those_of_numpy_and_scipy(some: list[float]) -> None:
    moments = Moments.of(some)
    assert moments.total == pytest.approx(np.sum(some))
    assert moments.mean == pytest.approx(np.mean(some))
    assert moments.stddev == pytest.approx(np.std(some, ddof=1))
    assert moments.skewness == pytest.approx(scipy.stats.skew(some), rel=1e-6, abs=1e-6)
    assert moments.kurtosis == pytest.approx(scipy.stats.kurtosis(some), rel=1e-6, abs=1e-6)
    assert (moments.minimum, moments.maximum) == (min(some), max(some))


@EXAMPLES
@given(st.integers(0, 10**9).map(float), st.integers(1, 30), st.integers(1, 30))
def test_equal_values_have_no_spread_however_merged(value: float, one: int, other: int) -> None:
    """Exactly none: a rounding residue would make every later value abnormal."""
    moments = Moments.of([value] * one).merge(Moments.of([value] * other))
    assert (moments.mean, moments.m2, moments.stddev) == (value, 0.0, 0.0)
    assert (moments.skewness, moments.kurtosis) == (0.0, 0.0)


def test_large_times_keep_their_small_spread() -> None:
    """No cancellation: the textbook sum of squares loses all digits here."""
    base = 1.7e15
    assert Moments.of([base, base + 1, base + 2]).stddev == pytest.approx(1.0)


def test_a_spread_too_small_to_be_raised_to_powers_has_no_shape() -> None:
    moments = Moments(n=3.0, mean=1.0, m2=1e-320, m3=0.0, m4=0.0, minimum=1.0, maximum=1.0)
    assert (moments.skewness, moments.kurtosis) == (0.0, 0.0)


def test_a_row_of_a_table_and_back() -> None:
    moments = Moments.of([1.0, 2.0, 4.0])
    assert Moments.from_row(moments.row()) == moments
    assert Moments.from_row(Moments().row()) == Moments(minimum=math.inf, maximum=-math.inf)
