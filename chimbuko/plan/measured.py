"""Measured times of one part of a workflow, checked: what models are fitted to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.errors import ConfigError

MOST_PARAMETERS = 3
MOST_SPREAD = 100.0
"""Times of one point that differ by such a factor are not of one unit, or not of one program."""
STEEPEST = 4.0
"""Nor are those of two neighbours, where that is also more than this power of what a parameter grows by: more
than any model that is tried makes of it.
"""


@dataclass(frozen=True)
class Measured:
    """Times of one part, of each point the mean over its repetitions."""

    part: str
    parameters: tuple[str, ...]
    points: Float64Array
    """Points, no two alike, with positive coordinates. Shape (points, parameters)."""
    repetitions: tuple[Float64Array, ...]
    """Times in seconds of each point, which are positive. Shape (repetitions,) of each."""

    @property
    def time_s(self) -> Float64Array:
        """Means, f8[points]."""
        return np.array([times.mean() for times in self.repetitions])

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Least and greatest value of each parameter."""
        return {
            name: (float(column.min()), float(column.max()))
            for name, column in zip(self.parameters, self.points.T, strict=True)
        }

    def columns(self) -> dict[str, Float64Array]:
        """Return values of each parameter. Shape (points,) of each."""
        return dict(zip(self.parameters, self.points.T, strict=True))


def measured(part: str, rows: Sequence[tuple[Mapping[str, float], float]]) -> Measured:
    """Return the rows of one part: the values of its parameters, the same ones in each, and seconds.

    Raises
    ------
    ConfigError
        They cannot be what was measured.
    """
    if not rows:
        raise ConfigError(f"{part}: nothing was measured")
    parameters = tuple(rows[0][0])
    by_point: dict[tuple[float, ...], list[float]] = {}
    for values, time_s in rows:
        for name, value in (*values.items(), ("time", time_s)):
            if not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"{part}: {name} is {value:g}; values and times are positive numbers")
        by_point.setdefault(tuple(values[name] for name in parameters), []).append(time_s)
    for point, times_s in by_point.items():
        if max(times_s) > MOST_SPREAD * min(times_s):
            where = ", ".join(f"{name} = {value:g}" for name, value in zip(parameters, point, strict=True))
            raise ConfigError(
                f"{part}: times at {where} lie between {min(times_s):g} and {max(times_s):g} s; "
                "are their units mixed?"
            )
    _check_neighbours(part, parameters, {point: sum(own) / len(own) for point, own in by_point.items()})
    points = np.array(list(by_point), float).reshape(len(by_point), len(parameters))
    return Measured(part, parameters, points, tuple(np.array(times) for times in by_point.values()))


def _check_neighbours(
    part: str, parameters: Sequence[str], time_s: Mapping[tuple[float, ...], float]
) -> None:
    """Raises ConfigError where points that differ in one parameter alone have times of different units."""
    for at, name in enumerate(parameters):
        lines: dict[tuple[float, ...], list[tuple[float, float]]] = {}
        for point, mean_s in time_s.items():
            lines.setdefault(point[:at] + point[at + 1 :], []).append((point[at], mean_s))
        for line in lines.values():
            for (low, low_s), (high, high_s) in pairwise(sorted(line)):
                factor = max(low_s, high_s) / min(low_s, high_s)
                if factor > max(MOST_SPREAD, (high / low) ** STEEPEST):
                    raise ConfigError(
                        f"{part}: {low_s:g} s at {name} = {low:g}, and {high_s:g} s at {name} = {high:g}; "
                        "are their units mixed?"
                    )


def check_unit(about: str, measured_s: float, predicted_s: float) -> None:
    """Raises ConfigError where what was measured cannot be in the unit of what was predicted."""
    if predicted_s and not 1 / MOST_SPREAD < measured_s / predicted_s < MOST_SPREAD:
        raise ConfigError(
            f"{about} took {measured_s:g} s, and {predicted_s:.3g} s are predicted; are their units mixed?"
        )
