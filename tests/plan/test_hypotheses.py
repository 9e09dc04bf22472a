"""Agreement of predictions with measurements, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.plan.hypotheses import agreement, smape


def test_r_squared_is_that_of_equation_10() -> None:
    found = agreement([1.0, 2.0, 3.0], [1.0, 2.5, 3.0])
    assert found.r_squared == pytest.approx(1 - 0.25 / 2)
    assert found.max_relative_error == 0.25
    assert found.points == 3


def test_of_equal_measurements_there_is_no_r_squared() -> None:
    assert agreement([2.0, 2.0], [2.0, 3.0]).r_squared is None


def test_smape_is_a_share_and_two_where_there_is_no_number() -> None:
    assert smape(np.array([1.0, 3.0]), np.array([3.0, 3.0])) == pytest.approx(0.5)
    assert smape(np.array([1.0]), np.array([np.inf])) == 2.0
