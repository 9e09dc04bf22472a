"""Measured times of one part of a workflow, checked: what models are fitted to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.arrays import Float64Array
from chimbuko.errors import ConfigError

MOST_PARAMETERS = 3
MOST_SPREAD = 100.0
"""Times of one point that differ by such a factor are not of one unit, or not of one program."""


@dataclass(frozen=True)
class Measured:
    """Times of one part, of each point the mean over its repetitions."""

    part: str
    parameters: tuple[str, ...]
    points: Float64Array
    """f8[points, parameters], no two alike; positive."""
    repetitions: tuple[Float64Array, ...]
    """Of each point its times in seconds, f8[repetitions]; positive."""

    @property
    def time_s(self) -> Float64Array:
        """Means, f8[points]."""
        return np.array([times.mean() for times in self.repetitions])

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Of each parameter the least and the greatest value."""
        return {
            name: (float(column.min()), float(column.max()))
            for name, column in zip(self.parameters, self.points.T, strict=True)
        }

    def columns(self) -> dict[str, Float64Array]:
        """Of each parameter its values, f8[points]."""
        return dict(zip(self.parameters, self.points.T, strict=True))


def measured(part: str, rows: Sequence[tuple[Mapping[str, float], float]]) -> Measured:
    """Rows of one part: the values of its parameters, the same ones in each, and seconds.

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
    points = np.array(list(by_point), float).reshape(len(by_point), len(parameters))
    return Measured(part, parameters, points, tuple(np.array(times) for times in by_point.values()))
