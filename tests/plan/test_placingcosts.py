"""What an agent takes for a second, a step and a row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from chimbuko.plan import placingcosts
from chimbuko.plan.placingcosts import (
    Slowdown,
    UnitCosts,
    Usual,
    _not_negative,
    predictions_s,
    unit_costs,
    usual,
)
from chimbuko.runtime.protocol.telemetry import AgentLoad

TRUE = UnitCosts(0.02, 0.001, 6e-7)


def load(seconds: float, steps: int, rows: int, costs: UnitCosts = TRUE, factor: float = 1.0) -> AgentLoad:
    return AgentLoad(seconds, 4, steps, rows, 48 * rows, factor * costs.cpu_s(seconds, steps, rows))


@pytest.mark.parametrize(
    "taken_as_usual",
    [
        usual().cpu_s,
        UnitCosts(0.048, 0.01, 7.6e-8),
        UnitCosts(0.008, 0.0035, 3e-7),
        UnitCosts(0.04, 5e-4, 1.5e-6),
    ],
)
def test_intervals_that_differ_show_the_costs_whatever_is_usual(
    monkeypatch: pytest.MonkeyPatch, taken_as_usual: UnitCosts
) -> None:
    monkeypatch.setattr(placingcosts, "usual", lambda: Usual(taken_as_usual, Slowdown()))
    loads = [load(10, steps, rows) for steps in (40, 400) for rows in (10_000, 1_000_000, 9_000_000)]
    found = unit_costs(loads)
    assert found.second == pytest.approx(TRUE.second, rel=0.1)
    assert found.row == pytest.approx(TRUE.row, rel=0.1)
    for one, predicted_s in zip(loads, predictions_s(loads), strict=True):
        assert predicted_s == pytest.approx(one.cpu_s, rel=0.25)


@given(
    seconds=st.floats(1, 1e4),
    steps=st.integers(1, 10**6),
    rows=st.integers(0, 10**10),
    factor=st.floats(0.01, 100),
)
def test_one_interval_is_enough_for_others_like_it(
    seconds: float, steps: int, rows: int, factor: float
) -> None:
    one = load(seconds, steps, rows, usual().cpu_s, factor)
    found = unit_costs([one])
    assert found.cpu_s(seconds, steps, rows) == pytest.approx(one.cpu_s, rel=0.1)
    assert min(found.second, found.step, found.row) >= 0


def test_without_an_interval_it_is_what_is_usual() -> None:
    assert unit_costs([]) == usual().cpu_s
    # A clock of 10 ms may not have moved.
    assert unit_costs([load(1, 1, 1, factor=0)]) == usual().cpu_s
    assert predictions_s([load(10, 40, 1000)]) == pytest.approx([usual().cpu_s.cpu_s(10, 40, 1000)])


@given(st.integers(0, 2**32 - 1))
def test_the_least_squares_are_those_of_scipy(seed: int) -> None:
    draw = np.random.default_rng(seed)
    matrix, wanted = draw.normal(size=(6, 3)), draw.normal(size=6)
    assert _not_negative(matrix, wanted) == pytest.approx(nnls(matrix, wanted)[0], abs=1e-9)
