"""Change points of many quantities over runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.arrays import Float64Array
from chimbuko.provenance.history.changepoints import CHANCE, LEAST_SERIES, change_points


def noise(seed: int, runs: int = 60, quantities: int = 8) -> Float64Array:
    found: Float64Array = np.random.default_rng(seed).normal(size=(runs, quantities))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_what_does_not_change_is_not_told(seed: int) -> None:
    assert change_points(noise(seed, 120)) == []


@pytest.mark.parametrize("seed", range(5))
def test_long_tails_are_no_change(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = np.exp(random.normal(scale=0.6, size=(120, 8)))
    values[random.random(values.shape) < 0.05] *= 6.0
    assert change_points(values) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_goes_up_and_down_by_days_is_no_change(seed: int) -> None:
    values = noise(seed, 150)
    for run in range(1, len(values)):
        values[run] += 0.5 * values[run - 1]
    assert change_points(values) == []


@given(st.integers(0, 1000), st.integers(20, 55), st.sampled_from([-4.0, 4.0, 6.0]))
@settings(max_examples=40, deadline=None)
def test_a_change_is_found_where_it_is(seed: int, at: int, shift: float) -> None:
    values = noise(seed)
    values[at:, 3] += shift
    (found,) = [one for one in change_points(values) if one.quantity == 3]
    assert abs(found.at - at) <= 1
    assert found.shift == pytest.approx(shift, abs=2.0)
    assert found.chance <= CHANCE


def test_five_runs_are_enough() -> None:
    values = noise(7, 65)
    values[60:, 0] += 4.0
    assert [(one.quantity, one.at) for one in change_points(values)] == [(0, 60)]


@pytest.mark.parametrize("seed", range(5))
def test_a_short_series_whose_first_run_was_cold_has_its_changes(seed: int) -> None:
    values = noise(seed, 30, 6)
    values[0, :3] += 9.0
    values[10:20, :3] += 6.0
    found = change_points(values)
    assert {one.quantity for one in found} == {0, 1, 2}
    assert {one.at for one in found} == {10, 20}


def test_one_slow_run_is_no_change() -> None:
    values = noise(8)
    values[30] += 50.0
    assert change_points(values) == []


def test_a_change_that_is_reverted_has_two_points() -> None:
    values = noise(9, 100)
    values[40:60, 2] += 5.0
    assert [(one.quantity, one.at) for one in change_points(values)] == [(2, 40), (2, 60)]


@given(st.integers(0, 100), st.floats(0.001, 1000), st.floats(-100, 100))
@settings(max_examples=15, deadline=None)
def test_the_unit_does_not_matter(seed: int, factor: float, offset: float) -> None:
    values = noise(seed)
    values[35:, 1] += 5.0
    found, scaled = change_points(values), change_points(factor * values + offset)
    assert [(one.quantity, one.at) for one in found] == [(one.quantity, one.at) for one in scaled]


def test_the_order_of_quantities_does_not_matter() -> None:
    values = noise(10)
    values[35:, 1] += 5.0
    found = change_points(np.ascontiguousarray(values[:, ::-1]))
    assert {(7 - one.quantity, one.at) for one in found} == {
        (one.quantity, one.at) for one in change_points(values)
    }


def test_values_that_are_not_known_are_left_out() -> None:
    values = noise(11)
    values[35:, 1] += 5.0
    values[::4, 1] = np.nan
    values[:, 5] = np.nan
    (found,) = change_points(values)
    assert (found.quantity, abs(found.at - 35) <= 1) == (1, True)


def test_of_few_runs_nothing_is_said() -> None:
    values = noise(12, LEAST_SERIES - 1)
    values[4:] += 100.0
    assert change_points(values) == []
    assert change_points(np.zeros((50, 3))) == []
    assert change_points(np.zeros((50, 0))) == []


def test_less_than_what_is_worth_telling_is_not_told() -> None:
    values = 0.001 * noise(13)
    values[30:, 0] += 0.005
    assert change_points(values, least=0.01) == []
    assert len(change_points(values, least=0.001)) == 1
