"""How long calls of a function take when nothing delays them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from chimbuko.core.arrays import Float64Array

TAIL = 1e-5
"""Of ordinary calls so many are longer than the quantile that a delay has to exceed to count as one."""
MEDIANS_US = (1000.0, 100_000.0)
"""From 1 to 100 ms: by default differences below 1 ms do not count as anomalies."""
SHORT_MEDIANS_US = (20.0, 1000.0)
GAMMA_SHAPES = (4.0, 20.0)
MODE_SIGMAS = (0.05, 0.2)


@dataclass(frozen=True)
class Mode:
    """One kind of call of a function: a continuous law of runtimes, in µs."""

    weight: float
    law: stats.rv_continuous


@dataclass(frozen=True)
class RuntimeLaw:
    """A mixture of modes."""

    modes: tuple[Mode, ...]

    def sample(self, random: np.random.Generator, count: int) -> tuple[Float64Array, Float64Array]:
        """Runtimes of ``count`` calls, and the median of the mode that each was drawn from; f8[count], µs."""
        of = random.choice(len(self.modes), count, p=[mode.weight for mode in self.modes])
        runtimes_us = np.empty(count)
        medians_us = np.empty(count)
        for number, mode in enumerate(self.modes):
            drawn = of == number
            runtimes_us[drawn] = mode.law.rvs(int(drawn.sum()), random_state=random)
            medians_us[drawn] = mode.law.median()
        return runtimes_us, medians_us

    def exceeded_by(self, runtime_us: float) -> float:
        """Share of calls that are longer."""
        return sum(mode.weight * float(mode.law.sf(runtime_us)) for mode in self.modes)

    def upper_quantile_us(self, share: float) -> float:
        """Runtime that ``share`` of the calls exceed."""
        if len(self.modes) == 1:
            return float(self.modes[0].law.isf(share))
        bounds = [float(mode.law.isf(share / 2)) for mode in self.modes]
        bounds += [float(mode.law.isf(min(share / mode.weight, 1 - 1e-9))) for mode in self.modes]
        return float(optimize.brentq(lambda t: self.exceeded_by(t) - share, min(bounds), max(bounds)))


LawMaker = Callable[[np.random.Generator], RuntimeLaw]
"""Draws the law of one function."""


def gamma(random: np.random.Generator, medians_us: tuple[float, float] = MEDIANS_US) -> RuntimeLaw:
    """Shape between 4 and 20."""
    shape = random.uniform(*GAMMA_SHAPES)
    scale_us = _median_us(random, medians_us) / stats.gamma.median(shape)
    return RuntimeLaw((Mode(1.0, stats.gamma(shape, scale=scale_us)),))


def log_normal(random: np.random.Generator, sigma: float) -> RuntimeLaw:
    """``sigma``: standard deviation of the logarithm."""
    return RuntimeLaw((Mode(1.0, stats.lognorm(sigma, scale=_median_us(random))),))


def two_modes(random: np.random.Generator, second_weight: float) -> RuntimeLaw:
    """Two narrow modes; calls of the second take twice as long."""
    median_us = _median_us(random)
    sigma = random.uniform(*MODE_SIGMAS)
    return RuntimeLaw(
        (
            Mode(1.0 - second_weight, stats.lognorm(sigma, scale=median_us)),
            Mode(second_weight, stats.lognorm(sigma, scale=2.0 * median_us)),
        )
    )


def _median_us(random: np.random.Generator, medians_us: tuple[float, float] = MEDIANS_US) -> float:
    """Evenly in the logarithm."""
    return float(np.exp(random.uniform(*np.log(medians_us))))
