"""Diagnostics of 16 ranks as Astaroth publishes them every five steps: healthy, or wrong.

The noise is autoregressive. Ranks differ: each has a level of its own, and its own share of the mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RANKS, EVERY, STEPS = 16, 5, 3_000
CULPRIT = 14
DEPARTS_BEFORE = 1_500
"""Steps from the departure of the culprit to the crash."""
MASS_NOISE, DENSITY_NOISE = 1e-5, 2e-3
CORRELATION = 0.3


@dataclass(frozen=True)
class Series:
    """Values of all ranks (f8[samples, ranks]), and the steps (i8[samples]) at which they were taken."""

    steps: npt.NDArray[np.int64]
    mass: npt.NDArray[np.float64]
    density_min: npt.NDArray[np.float64]


def noise(chance: np.random.Generator, samples: int, scale: float) -> npt.NDArray[np.float64]:
    fresh = chance.normal(0.0, scale * np.sqrt(1 - CORRELATION**2), (samples, RANKS))
    found = np.empty_like(fresh)
    found[0] = chance.normal(0.0, scale, RANKS)
    for at in range(1, samples):
        found[at] = CORRELATION * found[at - 1] + fresh[at]
    return found


def healthy(seed: int) -> Series:
    """Mass constant, extrema nearly alike; all ranks' densities breathe together."""
    chance = np.random.default_rng(seed)
    steps = np.arange(0, STEPS, EVERY)
    mass = chance.normal(1.0, 0.05, RANKS) * (1.0 + noise(chance, len(steps), MASS_NOISE))
    breath = 0.02 * np.sin(steps / 300.0 + chance.uniform(0, 6))[:, None]
    density = chance.normal(0.8, 0.01, RANKS) + breath + noise(chance, len(steps), DENSITY_NOISE)
    return Series(steps, mass, density)


def global_drift(seed: int) -> Series:
    """The time step is too long: mass is lost from the beginning, in the same proportion on every rank."""
    whole = healthy(seed)
    left = 1.0 - 3e-5 * whole.steps[:, None]
    return Series(whole.steps, whole.mass * left, whole.density_min * left)


def local_instability(seed: int) -> Series:
    """The viscosity is too small: on one rank the least density departs, and at the end its mass explodes."""
    whole = healthy(seed)
    since = np.maximum(whole.steps - (STEPS - DEPARTS_BEFORE), 0)
    density, mass = whole.density_min.copy(), whole.mass.copy()
    density[:, CULPRIT] -= 1.5 * DENSITY_NOISE * (np.exp(since / 300.0) - 1.0)
    mass[:, CULPRIT] *= 1.0 + np.exp((whole.steps - STEPS) / 20.0)
    return Series(whole.steps, mass, density)
