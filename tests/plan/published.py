"""Models that "A Performance Model of In-Situ Techniques" publishes, with points to measure them at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.plan.fitting import Measured, measured
from chimbuko.plan.normalform import NormalForm, parse_form


@dataclass(frozen=True)
class Published:
    """A model of one of its Tables, in seconds."""

    name: str
    text: str
    values: Mapping[str, Sequence[float]]
    """Of each parameter."""

    @property
    def form(self) -> NormalForm:
        return parse_form(self.text)


IMAGE_SIZES = (4.0, 8.0, 12.0, 18.0, 36.0)
ONE_PARAMETER = (
    Published("Nek5000", "6.4e-3 + 2.7110e3 / r", {"r": (864, 1152, 1440, 1728, 2016)}),
    Published("NEKO on cores", "7.4203e-3 + 29.0435 / r", {"r": (72, 144, 216, 288, 576)}),
    Published("NEKO on GPUs", "2.6042e-2 + 1.78424 / g", {"g": (4, 8, 16, 24, 32)}),
    Published("lossless compression", "0.1384 + 55.3399 / r", {"r": IMAGE_SIZES}),
    Published("image of 32³", "1.0148 + 2.1720 / r", {"r": IMAGE_SIZES}),
    Published("image of 64³", "0.3934 + 15.0021 / r", {"r": IMAGE_SIZES}),
    Published("image of Nek5000", "3.8060 + 8.2481 / sqrt(r)", {"r": (48, 96, 288, 432, 864)}),
    # Below 0 from 37 ranks on.
    Published("QE wave functions", "-11.605 + 205.01318 * r^-0.8", {"r": (2, 4, 8, 12, 18)}),
)
QE_ON_CORES = Published(
    "QE on cores",
    "259.30 - 32.7340 * log2(r) - 0.59391 * log2(t)",
    {"r": (4, 8, 16, 36, 72), "t": (1, 2, 4, 8, 18)},
)
LOSSY = Published(
    "lossy compression",
    "2.5573e-3 + 2.4793e-2 / g + 0.86584 / r",
    {"g": (4, 8, 16, 24, 32), "r": (8, 16, 32, 64, 128)},
)
QE_ON_GPUS = Published(
    "QE on GPUs",
    "30.705 + 1.3981 * log2(g)^0.5 * log2(r) * log2(t)^0.5 - 2.8021 * log2(r) * log2(t)^0.5"
    " - 13.7530 * log2(g)^0.5",
    {"g": (2, 4, 8, 12, 16), "r": (2, 4, 6, 8, 12), "t": (2, 3, 4, 5, 6)},
)
ALL = (*ONE_PARAMETER, QE_ON_CORES, LOSSY, QE_ON_GPUS)


def sampled(
    published: Published,
    plan: Sequence[Mapping[str, float]],
    noise: float = 0.0,
    repetitions: int = 1,
    seed: int = 0,
) -> Measured:
    """Its times at the points of a plan, with noise that is a share of each."""
    draw = np.random.default_rng(seed)
    rows = [
        (point, float(published.form.values(point)) * (1.0 + noise * draw.standard_normal()))
        for point in plan
        for _ in range(repetitions)
    ]
    return measured(published.name, rows)


def between(published: Published, number: int, seed: int) -> dict[str, Float64Array]:
    """Points anywhere among those that were measured."""
    draw = np.random.default_rng(seed)
    return {
        name: np.exp(draw.uniform(np.log(values[0]), np.log(values[-1]), number))
        for name, values in published.values.items()
    }
