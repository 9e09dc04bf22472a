"""Functions that became slower for good."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.incidents.drift import Drift, drifts_of
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
