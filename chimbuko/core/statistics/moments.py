"""Moments: one-pass statistics that merge exactly, without the values they came from."""

from __future__ import annotations

import math
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Float64Array

EMPTY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, math.inf, -math.inf])
"""Moments of no values, the identity of merging."""


class Moments(msgspec.Struct, frozen=True):
    """Count, mean, central moment sums, minimum and maximum of a set of values.

    ``m2``, ``m3``, ``m4`` are sums of powers of the deviation from the mean, not divided by n.
    Source: Pébay, SAND2008-6212.
    """

    n: float = 0.0
    mean: float = 0.0
    m2: float = 0.0
    m3: float = 0.0
    m4: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf

    @classmethod
    def from_row(cls, row: Float64Array) -> Self:
        """Return the moments in a table's float64[7]."""
        return cls(*row[: len(EMPTY)].tolist())

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Self:
        """Return the moments of an array of values."""
        # Imported here, as in merge(), because it loads compiled code: 0.4 s of the 1.2 s that a dashboard
        # starts in.
        from chimbuko.core.kernels.merge import add_value

        row = EMPTY.copy()
        for value in np.asarray(values, np.float64).ravel():
            add_value(row, float(value))
        return cls.from_row(row)

    def row(self) -> Float64Array:
        """Return the moments as float64[7] for a table."""
        return np.array([self.n, self.mean, self.m2, self.m3, self.m4, self.minimum, self.maximum])

    def merge(self, other: Moments) -> Moments:
        """Return the moments of the two sets together."""
        from chimbuko.core.kernels.merge import merge_moments

        row = self.row()
        merge_moments(row, other.row())
        return Moments.from_row(row)

    @property
    def total(self) -> float:
        """Sum of the values."""
        return self.n * self.mean

    @property
    def stddev(self) -> float:
        """Sample standard deviation (n - 1); 0 for fewer than two values."""
        return math.sqrt(max(self.m2, 0.0) / (self.n - 1)) if self.n > 1 else 0.0

    @property
    def skewness(self) -> float:
        """Population skewness; 0 if all values are equal."""
        # A spread that is tiny beyond all measure becomes 0 when it is raised to a power.
        power = max(self.m2, 0.0) ** 1.5
        return math.sqrt(self.n) * self.m3 / power if power > 0 else 0.0

    @property
    def kurtosis(self) -> float:
        """Excess kurtosis of the population; 0 if all values are equal."""
        power = self.m2 * self.m2
        return self.n * self.m4 / power - 3.0 if power > 0 else 0.0
