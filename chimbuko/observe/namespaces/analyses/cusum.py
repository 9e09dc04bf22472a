"""Cumulative sums (Page 1954) of several series at once: a lasting deviation from zero adds up, noise
does not.

Of a standardised value each sample adds what exceeds ``SLACK`` to the sum of its side, which never falls
below zero. The slack also covers that what is usual was learned from few samples: of 16 ranks the worst is
half a standard deviation off. The limit leaves room for noise whose samples depend on each other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SLACK = 1.5
LIMIT = 20.0
LARGEST = 10.0
"""Largest contribution of one sample, so that a single outlier does not look like a lasting deviation."""
_TO_SIGMA = 1.4826
"""A normal distribution's standard deviation in units of its median absolute deviation."""


class Cusum:
    """Cumulative sums of ``count`` series, on the upper and on the lower side."""

    def __init__(self, count: int) -> None:
        self._sums = np.zeros((2, count))
        self._since = np.zeros((2, count), np.int64)

    def add(self, step: int, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Add a sample of standardised values, and return which series are beyond the limit."""
        sides = np.stack([values, -values])
        sums = np.maximum(self._sums + np.minimum(sides, LARGEST) - SLACK, 0.0)
        self._since[self._sums == 0.0] = step
        self._sums = sums
        return np.asarray((sums > LIMIT).any(axis=0))

    def since(self, series: int) -> int:
        """Return the step from which a series has been away from zero."""
        return int(self._since[np.argmax(self._sums[:, series]), series])


def scale(samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the standard deviation of each column's noise, from differences of neighbours, so that a trend
    does not count.
    """
    differences = np.abs(np.diff(samples, axis=0))
    sigma: npt.NDArray[np.float64] = _TO_SIGMA * np.median(differences, axis=0) / np.sqrt(2.0)
    return sigma
