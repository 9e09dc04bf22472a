"""Student's t beside that of scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from chimbuko.core.statistics.student import digamma, trigamma, two_sided_p, two_sided_t

T = np.array([0.0, 1e-9, 0.1, 1.0, 2.5, -3.0, 12.0, 300.0, 1e8])


@pytest.mark.parametrize("degrees", [1.0, 2.0, 2.7, 5.0, 30.0, 998.0, 20_000.0])
def test_probabilities_are_those_of_scipy(degrees: float) -> None:
    expected = 2 * stats.t.sf(np.abs(T), degrees)
    assert two_sided_p(T, np.full(len(T), degrees)) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_an_infinite_t_is_impossible() -> None:
    assert two_sided_p(np.array([np.inf]), np.array([4.0])).tolist() == [0.0]


def test_quantiles_are_those_of_scipy() -> None:
    degrees = np.array([1.0, 1.5, 4.0, 60.0, 5000.0])
    for p in (0.05, 0.01, 1e-6):
        assert two_sided_t(p, degrees) == pytest.approx(stats.t.isf(p / 2, degrees), rel=1e-9)
    assert float(two_sided_t(0.05, np.array(7.0))) == pytest.approx(stats.t.isf(0.025, 7))


def test_derivatives_of_the_gamma_function_are_those_of_scipy() -> None:
    for x in (0.1, 0.5, 1.0, 3.7, 9.99, 50.0, 1e6):
        assert digamma(x) == pytest.approx(special.digamma(x), rel=1e-12, abs=1e-12)
        assert trigamma(x) == pytest.approx(special.polygamma(1, x), rel=1e-11)
