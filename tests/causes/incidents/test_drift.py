"""Functions that became slower for good."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.incidents.drift import Drift, Stretch, drift_over, drifts_of
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US

CALLS = 10_000


def drifts(name: str, first_us: float, factor: float, since: float, run_us: float = 0.0) -> list[Drift]:
    """Drifts of a function whose calls take longer by a factor from some time on, beside another."""
    runtimes = first_us * factor * np.random.default_rng(1).lognormal(0.0, 0.05, CALLS)
    counts: Float64Array = np.histogram(runtimes, EDGES_US)[0].astype(np.float64)
    mean_us = first_us * (since + (1.0 - since) * factor)
    return drifts_of(
        [("heat", name), ("heat", "solve")],
        np.stack([counts, counts]),
        np.array([CALLS, 1.0]),
        np.array([mean_us, run_us]),
        np.array([factor, 1.0]),
    )


@given(st.floats(10.0, 1e5), st.floats(1.3, 20.0), st.floats(0.0, 0.8))
def test_it_costs_what_calls_take_more_than_at_first(first_us: float, factor: float, since: float) -> None:
    ((found),) = drifts("step", first_us, factor, since)
    assert (found.program, found.function, found.factor) == ("heat", "step", factor)
    assert found.usual_us == pytest.approx(first_us, rel=0.03)
    assert found.typical_us == pytest.approx(factor * first_us, rel=0.03)
    lost_us = CALLS * first_us * (factor - 1.0) * (1.0 - since)
    assert found.lost_us == pytest.approx(lost_us, abs=0.03 * CALLS * first_us)


def test_what_is_no_drift_or_not_worth_it() -> None:
    assert drifts("step", 100.0, 1.1, 0.5) == []
    assert drifts("step", 100.0, 0.5, 0.5) == []
    assert drifts("step", 100.0, 2.0, 0.5, run_us=CALLS * 100.0 * 100.0) == []
    assert drifts("MPI_Allreduce()", 100.0, 8.0, 0.5) == []
    assert drifts("await sleep in server.handle", 100.0, 8.0, 0.5) == []


def stretch(runtimes_us: Float64Array) -> Stretch:
    return Stretch(np.histogram(runtimes_us, EDGES_US)[0].astype(np.float64), float(runtimes_us.sum()))


def test_a_function_of_few_calls_that_becomes_slower_step_by_step() -> None:
    """It goes from 1 to 5.5 ms over 1,500 calls: far fewer than an era of the detector has."""
    runtimes_us = 1e3 + 3.0 * np.arange(1500)
    parts = np.split(runtimes_us, [114, 514, 824, 1001])
    found = drift_over("trouble", "search", [stretch(part) for part in parts])
    assert found is not None
    assert (found.before, found.usual_us) == (0, pytest.approx(1000.0, rel=0.05))
    assert found.typical_us == pytest.approx(parts[-1].mean())
    assert found.lost_us == pytest.approx((runtimes_us - 1000.0).sum(), rel=0.03)


@pytest.mark.parametrize("at", [1300, 1500, 1900])
def test_a_drift_begins_and_costs_where_its_calls_do_also_within_a_stretch(at: int) -> None:
    runtimes_us = np.where(np.arange(3000) < at, 1000.0, 2000.0)
    parts = np.split(runtimes_us, [500, 900, 1990, 2500])
    found = drift_over("phases", "solve", [stretch(part) for part in parts])
    assert found is not None
    assert (found.before, found.lost_us) == (at, pytest.approx(1000.0 * (3000 - at)))


@given(
    st.integers(0, 1000), st.floats(5.0, 1e5), st.floats(0.0, 0.3), st.lists(st.integers(1, 400), max_size=9)
)
def test_chance_is_no_drift(seed: int, median_us: float, spread: float, calls: list[int]) -> None:
    random = np.random.default_rng(seed)
    stretches = [stretch(median_us * random.lognormal(0.0, spread, number)) for number in calls]
    assert drift_over("heat", "relax", stretches) is None


def test_a_few_long_calls_at_first_may_hide_where_a_drift_begins() -> None:
    usual, slow, slower = (np.full(100, us) for us in (100.0, 150.0, 1000.0))
    first = stretch(np.append(usual, [3000.0] * 4))
    found = drift_over("heat", "relax", [first, stretch(usual), stretch(slow), stretch(slower)])
    assert found is not None and found.before == 204


def test_levels_phases_and_delays_are_no_drift() -> None:
    short, long = np.full(300, 10.0), np.full(100, 900.0)
    level = stretch(np.concatenate([short, long]))
    # Of a multigrid solver the coarse levels are called more often later.
    more = stretch(np.concatenate([short, long, long]))
    assert drift_over("hpcg", "relax", [level, level, more]) is None
    usual, slow = stretch(np.full(100, 100.0)), stretch(np.full(100, 200.0))
    assert drift_over("heat", "relax", [usual, slow, usual]) is None
    assert drift_over("heat", "MPI_Allreduce()", [usual, slow, slow]) is None
    assert drift_over("server", "await sleep in server.handle", [usual, slow, slow]) is None
    assert drift_over("heat", "relax", [usual, slow, slow]) is not None
    assert drift_over("heat", "relax", []) is None
