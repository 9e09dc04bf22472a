"""Slow modes, out of counts of runtimes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.incidents.slowmodes import SlowMode, slow_mode, slow_modes_of
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US

RANDOM = np.random.default_rng(1)


def counts(*modes: tuple[int, float]) -> Float64Array:
    """Histogram of so many calls about each runtime in µs, 5 % wide."""
    runtimes = [RANDOM.lognormal(np.log(median_us), 0.05, calls) for calls, median_us in modes]
    return np.histogram(np.concatenate(runtimes), EDGES_US)[0].astype(np.float64)


def mode_of(*modes: tuple[int, float], run_us_per_call: float = 0.0) -> SlowMode | None:
    return slow_mode("heat", "step", counts(*modes), EDGES_US, run_us_per_call)


def test_a_few_calls_that_hold_most_of_the_time_are_a_mode() -> None:
    found = mode_of((10_098, 15.0), (70, 80_000.0))
    assert found is not None
    assert found.share == pytest.approx(70 / 10_168)
    assert found.usual_us == pytest.approx(15, rel=0.1)
    assert found.typical_us == pytest.approx(80_000, rel=0.1)
    assert found.lost_us == pytest.approx(80_000, rel=0.1)
    assert 15 < found.from_us <= 80_000


def test_of_three_modes_the_slow_one_counts() -> None:
    found = mode_of((97, 200_000.0), (97, 400_000.0), (6, 10_000_000.0))
    assert found is not None and found.share == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("modes", "run_us_per_call"),
    [
        (((10_000, 15.0),), 0.0),
        (((10_000, 15.0), (100, 90.0)), 0.0),  # not so much slower
        (((10_000, 15.0), (4, 1_000.0)), 0.0),  # a fiftieth of the function's time
        (((10_000, 15.0), (70, 80_000.0)), 100_000.0),  # half a hundredth of the run's
        (((10_000, 15.0), (2, 1_000_000.0)), 0.0),  # incidents
        (((10_000, 15.0), (4_000, 900.0)), 0.0),  # levels of a multigrid solver: two of seven calls
        (((0, 15.0),), 0.0),
    ],
)
def test_what_is_not_worth_telling(modes: tuple[tuple[int, float], ...], run_us_per_call: float) -> None:
    assert mode_of(*modes, run_us_per_call=run_us_per_call) is None


@given(st.lists(st.tuples(st.integers(0, 295), st.integers(1, 10_000)), max_size=12))
def test_of_any_counts_what_is_told_is_so(cells: list[tuple[int, int]]) -> None:
    of_function = np.zeros(len(EDGES_US) - 1)
    for bucket, calls in cells:
        of_function[bucket] += calls
    found = slow_mode("heat", "step", of_function, EDGES_US, 0.0)
    if found is not None:
        slow = of_function[EDGES_US[:-1] >= found.from_us].sum()
        assert found.share == pytest.approx(slow / of_function.sum())
        assert found.typical_us >= 8 * found.usual_us > 0


@given(
    st.integers(200, 20_000),
    st.floats(0.001, 0.09),
    st.floats(5.0, 1e5),
    st.floats(9.0, 1e4),
    st.floats(0.0, 0.1),
    st.integers(0, 2**32 - 1),
)
def test_no_mode_that_counts_is_silent(
    calls: int, share: float, usual_us: float, times: float, width: float, seed: int
) -> None:
    """A mode that counts has at least 4 % of the function's time and 1 % of the run's, eight times above the
    rest.
    """
    random = np.random.default_rng(seed)
    slow_calls = max(3, int(share * calls))
    usual = random.lognormal(np.log(usual_us), width, calls - slow_calls)
    slow = random.lognormal(np.log(times * usual_us), width, slow_calls)
    of_function = np.histogram(np.concatenate((usual, slow)), EDGES_US)[0].astype(np.float64)
    total_us = usual.sum() + slow.sum()
    run_us_per_call = 90.0 * slow.sum() / calls
    found = slow_mode("heat", "step", of_function, EDGES_US, run_us_per_call)
    if slow.sum() < 0.036 * total_us:
        assert found is None
    elif slow.sum() > 0.044 * total_us:
        assert found is not None
        assert found.share == pytest.approx(slow_calls / calls, rel=0.02)
        assert found.lost_us * slow_calls == pytest.approx(slow.sum() - slow_calls * usual_us, rel=0.1)


def test_all_functions_of_a_run_share_its_time() -> None:
    functions = [("heat", "step"), ("heat", "solve"), ("heat", "never")]
    table = np.array([counts((10_000, 15.0), (70, 80_000.0)), counts((1000, 10_000.0)), counts((0, 1.0))])
    moments = np.zeros((3, 7))
    moments[:, 0] = 10_070, 1000, 0
    moments[:, 1] = 560, 10_000, 0
    assert [mode.function for mode in slow_modes_of(functions, table, moments)] == ["step"]
    # Where another one takes nearly all of it, that is what matters.
    moments[1, 1] = 1e9
    assert slow_modes_of(functions, table, moments) == []
