"""Slow, obvious twin of ``ad.detectors.kernels.tail``: lists, SciPy's normal distribution, NumPy's fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from chimbuko.ad.kernels import tail
from chimbuko.core.buckets import PER_DOUBLING


@dataclass
class SlowFit:
    """The fitted line, and what it was fitted to."""

    centre_z: float
    centre: float
    slope: float
    mode_share: float

    def ln_at(self, share: float) -> float:
        """Logarithm of the runtime that ``share`` of the ordinary calls exceed."""
        return self.centre + self.slope * (stats.norm.isf(min(share / self.mode_share, 0.5)) - self.centre_z)


class SlowTail:
    """One function: counts per bucket between edges, both ascending."""

    def __init__(self, counts: Sequence[float], edges: Sequence[float]) -> None:
        self.counts = list(counts)
        self.edges = list(edges)
        self.calls = sum(self.counts)
        self._above = [sum(self.counts[bucket:]) for bucket in range(len(self.counts) + 1)]

    def above(self, bucket: int) -> float:
        """Calls in a bucket and those after it."""
        return self._above[max(bucket, 0)]

    def exceeded_by(self, rank: float) -> float:
        """The value that ``rank`` calls exceed."""
        bucket = max(b for b in range(len(self.counts)) if b == 0 or self.above(b) >= rank)
        inside = self.above(bucket) - rank
        share = inside / self.counts[bucket] if self.counts[bucket] else 0.0
        return self.edges[bucket] + share * (self.edges[bucket + 1] - self.edges[bucket])

    def bucket_of(self, value: float) -> int:
        """Of a value; the first or last one outside of the edges."""
        inside = [b for b in range(len(self.counts)) if self.edges[b] <= value]
        return max(inside, default=0)

    def calls_above(self, value: float) -> float:
        """How many exceed ``value``."""
        bucket = self.bucket_of(value)
        share = (value - self.edges[bucket]) / (self.edges[bucket + 1] - self.edges[bucket])
        return self.above(bucket) - min(max(share, 0.0), 1.0) * self.counts[bucket]

    def slowest_mode(self, left_out: float, fewest: float) -> float:
        """Calls of the slowest mode with at least ``fewest``, without the ``left_out`` largest."""
        for bucket in range(len(self.counts) - 1, 0, -1):
            calls = self.above(bucket) - left_out
            below = self.above(bucket - PER_DOUBLING) - self.above(bucket)
            if self.above(bucket) and calls >= fewest and below < tail.GAP * calls:
                return calls
        return self.calls - left_out

    def fit(self, left_out: float) -> SlowFit:
        """The line through the quantiles of the slowest mode."""
        calls = self.calls - left_out
        fewest = max(tail.COMMON_SHARE * calls, tail.COMMON_CALLS)
        mode = self.slowest_mode(left_out, fewest)
        beyond = min(fewest, 0.5 * mode)
        shares = [beyond / mode * math.sqrt(2.0) ** point for point in range(tail.POINTS)]
        shares = [share for share in shares if share <= 0.75]
        z = stats.norm.isf(shares)
        y = np.array([self.exceeded_by(share * mode + left_out) for share in shares])
        used = min(tail.FEWEST_POINTS, len(shares))
        slope = np.polyfit(z[:used], y[:used], 1)[0]
        for more in (min(tail.MORE_POINTS, len(shares)), len(shares)):
            wider = np.polyfit(z[:more], y[:more], 1)[0]
            if abs(wider - slope) > tail.AGREEMENT * slope:
                break
            slope, used = wider, more
        weight = beyond * ((z[:used] - z[:used].mean()) ** 2).sum()
        slope = min(max(slope, 0.0), tail.MOST_SLOPE)
        slope = (slope * weight + tail.PRIOR_SLOPE * tail.PRIOR_WEIGHT) / (weight + tail.PRIOR_WEIGHT)
        error = 1.0 / math.sqrt(beyond * math.sqrt(2.0) ** (used - 1))
        slope *= 1.0 + tail.CAUTION * error
        return SlowFit(z[:used].mean(), y[:used].mean(), slope, mode / calls)

    def beyond(self, fit: SlowFit, ordinary_share: float) -> float:
        """The lowest limit beyond which few of the calls are expected to be ordinary."""
        loosest = tail.LOOSEST * ordinary_share
        limit = fit.ln_at(loosest)
        for _ in range(20):
            false = max(tail.FALSE_SHARE * self.calls_above(limit), tail.FEWEST_FALSE)
            higher = fit.ln_at(min(max(false / self.calls, ordinary_share), loosest))
            if higher <= limit + 1e-4:
                break
            limit = higher
        return limit

    def limit(self, ordinary_share: float) -> tuple[float, SlowFit | None]:
        """Where ordinary calls end, and the fit that says so."""
        if self.calls < tail.FEWEST_CALLS:
            return math.inf, None
        left_out = 0.0
        for _ in range(tail.ROUNDS):
            fit = self.fit(left_out)
            limit = self.beyond(fit, ordinary_share)
            beyond = self.above(self.bucket_of(limit) + 1)
            beyond = min(beyond, tail.COMMON_SHARE * self.calls + 3.0)
            if beyond == left_out:
                break
            left_out = beyond
        median = self.exceeded_by(0.5 * self.calls)
        reach = 1.0 + tail.YOUNG_REACH * min(1.0, tail.YOUNG_CALLS / self.calls)
        return max(limit, median + math.log(reach)), fit
