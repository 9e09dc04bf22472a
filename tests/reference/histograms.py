"""Slow, obvious twin of ``ad.detectors.kernels.histogram``: NumPy's interpolation, one row at a time."""

from __future__ import annotations

import math
from itertools import groupby

import numpy as np
from scipy import stats

from chimbuko.ad.kernels import histogram, tail
from chimbuko.core.buckets import BUCKETS, EDGES_US


class SlowHistogram:
    """One function: its calls by bucket, in equal bins, with a score for each."""

    def __init__(self, counts: np.ndarray, threshold: float, is_copod: bool) -> None:
        self.counts = counts
        self.total = counts.sum()
        self.up_to = np.concatenate(([0.0], np.cumsum(counts)))
        self.median = self.quantile(0.5)
        self.young_us = self.median * (1 + tail.YOUNG_REACH * min(1.0, tail.YOUNG_CALLS / self.total))
        self.low, self.high = self.range_us()
        calls = self.calls_in(np.linspace(self.low, self.high, histogram.BINS + 1))
        centres = self.low + (self.high - self.low) * (np.arange(histogram.BINS) + 0.5) / histogram.BINS
        mean = np.average(centres, weights=calls)
        stddev = math.sqrt(np.average((centres - mean) ** 2, weights=calls))
        self.spread = max(stddev, (self.high - self.low) / histogram.BINS / math.sqrt(12.0))
        skewness = np.average((centres - mean) ** 3, weights=calls) / self.spread**3
        if is_copod:
            scott = 3.5 * self.spread / self.total ** (1 / 3)
            self.edges = np.linspace(self.low, self.high, 1 + self.bins((self.high - self.low) / scott))
            middle = (self.edges[1:] + self.edges[:-1]) / 2
            self.bits = np.array([self.copod_score(us, skewness) for us in middle])
        else:
            self.edges = np.linspace(self.low, self.high, histogram.BINS + 1)
            self.bits = np.minimum(-np.log2(calls / self.total + 78.88e-32), 100.0)
        commonest, rarest = self.bits.min(), math.log2(histogram.ALONE_BINS * self.total)
        self.scores = (self.bits - commonest) / (rarest - commonest)
        self.outside = (100.0 - commonest) / (rarest - commonest)
        self.limit = threshold
        begins = self.edges[:-1]
        is_beyond = begins > np.max(begins[self.is_ordinary()], initial=-math.inf)
        self.scores[is_beyond] = np.maximum.accumulate(self.scores[is_beyond])

    @staticmethod
    def bins(wanted: float) -> int:
        return int(np.clip(math.ceil(wanted), 1, histogram.BINS))

    def quantile(self, share: float) -> float:
        """Runtime that a share of the calls is above."""
        bucket = max(b for b in range(BUCKETS) if b == 0 or self.total - self.up_to[b] >= share * self.total)
        inside = self.total - self.up_to[bucket] - share * self.total
        part = inside / self.counts[bucket] if self.counts[bucket] else 0.0
        return EDGES_US[bucket] + part * (EDGES_US[bucket + 1] - EDGES_US[bucket])

    def calls_in(self, edges: np.ndarray) -> np.ndarray:
        """Each bucket's calls spread evenly over it."""
        return np.diff(np.interp(edges, EDGES_US, self.up_to))

    def range_us(self) -> tuple[float, float]:
        rare = max(histogram.COMMON_SHARE, min(histogram.COMMON_CALLS / self.total, 1 / 8))
        stretch = histogram.REACH / stats.norm.isf(rare)
        used = np.flatnonzero(self.counts)
        begin = self.median - stretch * (self.median - self.quantile(1 - rare))
        end = self.median + stretch * (self.quantile(rare) - self.median)
        end = max(min(end, EDGES_US[used[-1] + 1]), self.young_us)
        return max(begin, EDGES_US[used[0]]), end

    def peaks(self) -> list[tuple[float, float]]:
        """Begin and end of each run of calls with a common share of all."""
        used = [
            b
            for b in np.flatnonzero(self.counts).tolist()
            if EDGES_US[b + 1] > self.low and EDGES_US[b] < self.high
        ]
        gap = histogram.GAP_SHARE * (self.high - self.low)
        runs: list[tuple[float, float, float]] = [(self.low, self.low, 0.0)]
        for bucket in used:
            begin, end, calls = runs[-1]
            if EDGES_US[bucket] - end >= gap:
                runs.append((EDGES_US[bucket], min(EDGES_US[bucket + 1], self.high), self.counts[bucket]))
            else:
                runs[-1] = (begin, min(EDGES_US[bucket + 1], self.high), calls + self.counts[bucket])
        enough = histogram.COMMON_SHARE * self.total
        return [(begin, end) for begin, end, calls in runs if calls >= enough]

    def copod_score(self, us: float, skewness: float) -> float:
        """The least of all peaks."""
        scores = []
        for begin, end in self.peaks():
            left = float(self.calls_in(np.array([begin, np.clip(us, begin, end)]))[0])
            inside = float(self.calls_in(np.array([begin, end]))[0])
            bits = [-math.log2(tail_calls / inside + 78.88e-32) for tail_calls in (left, inside - left)]
            weighted = bits[0] * (skewness < 1) + bits[1] * (skewness > -1)
            scores.append(min(max(sum(bits) / 2, weighted), 100.0))
        return min(scores)

    def score(self, us: float) -> float:
        """Of a runtime; nobody looks for short ones."""
        if us < self.edges[0]:
            return 0.0
        if us >= self.edges[-1]:
            return float(self.outside)
        return float(self.scores[np.searchsorted(self.edges, us, side="right") - 1])

    def is_ordinary(self) -> np.ndarray:
        """Which bins are."""
        begins = self.edges[:-1]
        is_young = (begins >= self.median) & (begins < self.young_us)
        return (self.scores < self.limit) | is_young

    def spans(self) -> list[tuple[float, float]]:
        """Begin and end of each span of ordinary bins."""
        begins = self.edges[:-1]
        is_ordinary = self.is_ordinary()
        found = []
        for ordinary, group in groupby(range(len(begins)), key=is_ordinary.__getitem__):
            run = list(group)
            if ordinary:
                found.append((float(self.edges[run[0]]), float(self.edges[run[-1] + 1])))
        return found
