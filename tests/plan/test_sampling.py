"""The plan of few points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.plan.fitting import points_needed, sampling_plan

VALUES = st.lists(st.integers(1, 10_000).map(float), min_size=5, max_size=12, unique=True)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_a_plan_has_6h_minus_1_points_and_five_of_each_parameter(given_values: list[list[float]]) -> None:
    values = {f"p{at}": one for at, one in enumerate(given_values)}
    plan = sampling_plan(values)
    assert len({tuple(point.values()) for point in plan}) == len(plan) == points_needed(len(values))
    cheapest = {name: min(one) for name, one in values.items()}
    for name, one in values.items():
        line = {
            point[name]
            for point in plan
            if all(point[other] == cheapest[other] for other in values if other != name)
        }
        assert len(line) == 5
        assert {min(one), max(one)} <= line <= set(one)


def test_there_are_5_11_and_17() -> None:
    assert [points_needed(parameters) for parameters in (1, 2, 3)] == [5, 11, 17]


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 4.0, 8.0],
        [1.0, 1.0, 1.0, 1.0, 2.0],
        [0.0, 1.0, 2.0, 3.0, 4.0],
        [1.0, 2.0, 3.0, float("nan"), 4.0],
        [1.0, 2.0, 3.0, 4.0, float("inf")],
    ],
)
def test_too_few_values_and_those_that_are_not_positive_are_refused(values: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"needs 5 of each|are positive"):
        sampling_plan({"ranks": values})
