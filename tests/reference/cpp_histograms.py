"""HBOS and COPOD as the C++ Chimbuko 7.0 defines them, to show what ours correct."""

from __future__ import annotations

import math

import numpy as np

THRESHOLD = 0.99
NOTHING = 78.88e-32


class CppHistogram:
    """Equal bins (l, u] over all values seen; merging splits counts evenly over bins of the union's range."""

    def __init__(self, counts: np.ndarray, edges: np.ndarray) -> None:
        self.counts = counts
        self.edges = edges

    @classmethod
    def of(cls, values: np.ndarray, bins: int) -> CppHistogram:
        # A little below the least value, which belongs to the first bin.
        edges = np.linspace(values.min() - 1e-6 * np.ptp(values) - 1e-9, values.max(), bins + 1)
        place = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, bins - 1)
        return cls(np.bincount(place, minlength=bins).astype(float), edges)

    def merge(self, other: CppHistogram) -> CppHistogram:
        edges = np.linspace(
            min(self.edges[0], other.edges[0]), max(self.edges[-1], other.edges[-1]), len(self.edges)
        )
        parts = [
            np.interp(edges, one.edges, np.concatenate(([0], np.cumsum(one.counts)))) for one in (self, other)
        ]
        return CppHistogram(np.diff(parts[0] + parts[1]), edges)

    def is_abnormal(self, values: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Beyond the threshold that the scores of the bins in use give."""
        used = scores[self.counts > 0]
        limit = used.min() + THRESHOLD * (used.max() - used.min())
        place = np.searchsorted(self.edges, values, side="left") - 1
        is_outside = (place < 0) | (place >= len(scores))
        return is_outside | (scores[np.clip(place, 0, len(scores) - 1)] >= limit)


def hbos_flags(values: np.ndarray, bins: int = 200) -> np.ndarray:
    """Which of the values are outliers among themselves."""
    histogram = CppHistogram.of(values, bins)
    return histogram.is_abnormal(values, -np.log2(histogram.counts / histogram.counts.sum() + NOTHING))


def copod_flags(values: np.ndarray) -> np.ndarray:
    """Which of the values are outliers among themselves."""
    width = 3.5 * values.std(ddof=1) / len(values) ** (1 / 3)
    histogram = CppHistogram.of(values, max(math.ceil(np.ptp(values) / width), 1))
    shares = histogram.counts / histogram.counts.sum()
    left = np.cumsum(shares) - shares / 2
    skewness = ((values - values.mean()) ** 3).mean() / values.std() ** 3
    bits = -np.log2(left + NOTHING), -np.log2(1 - left + NOTHING)
    weighted = -np.sign(skewness - 1) * bits[0] + np.sign(skewness + 1) * bits[1]
    return histogram.is_abnormal(values, np.maximum((bits[0] + bits[1]) / 2, weighted))
