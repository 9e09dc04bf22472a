"""HBOS and COPOD: detectors with a histogram of each function, whose bins have scores.

HBOS (histogram-based outlier score) flags a call where few others of its function are. COPOD (copula-based
outlier detection) flags a call where few others of its peak are longer, or shorter.

The definitions are those of the C++ Chimbuko 7.0, with these differences; docs/internals/detection.md shows
what each mends.

- Histograms are rebuilt from counts in fixed buckets, which merge exactly. Theirs were merged by splitting
  the counts of one over the bins of the other, so that the result depended on the order.
- They reach as far as the common calls, not to the longest call: one huge value left one bin
  to all others. What lies outside has the highest score, as theirs has.
- Scores are on the scale of the threshold, from the commonest bin (0) to the rarest (1), and not in bits.
- The score of the rarest bin follows from the number of calls: that of one call alone in 16 bins. Theirs
  was the highest score of all bins that are not empty: two equal delays
  lowered it to their own, and in a histogram of equal counts it was the score of every bin. It grows with
  the calls, so a threshold that only ever rises needs no further rule.
- COPOD: the tails are those of each peak. Those of all calls together are not where the gaps are.
- Young functions are treated with the same care as by ``robust``.
"""

from __future__ import annotations

import numpy as np

from chimbuko.ad.detectors import Judgements, Limits
from chimbuko.ad.kernels import histogram
from chimbuko.core.arrays import Float64Array
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import BUCKETED_PROFILE


class ScoredBins:
    """Detector whose scores belong to the bins of a histogram."""

    schema = BUCKETED_PROFILE
    recheck_growth = 0.0
    judges_by_tails = False
    """Whether bins are scored by how few calls lie beyond them, and not by how few are in them."""

    def __init__(self, config: AnalysisConfig) -> None:
        self._buckets = BUCKETED_PROFILE.slices["buckets"]
        self._fast_side = config.fast_side

    def limits(self, table: Float64Array, thresholds: Float64Array) -> Limits:
        """Return limits: bins that score less than the threshold are ordinary."""
        edges_us = np.empty((len(table), histogram.EDGES))
        measures = np.empty((len(table), histogram.MEASURES))
        counts = np.ascontiguousarray(table[:, self._buckets])
        histogram.score_bins(counts, thresholds, self.judges_by_tails, edges_us, measures)
        return Limits(edges_us, measures[:, histogram.MEDIAN], measures)

    def judge(self, measures: Float64Array, runtimes_us: Float64Array) -> Judgements:
        """Judge by the score of the bin; 0 for young functions, and below all bins where short calls are
        ordinary.
        """
        low, width, count, median, spread, seen, outside = measures[:, : histogram.SCORES].T
        is_known = count > 0
        place = np.divide(runtimes_us - low, width, out=np.zeros(len(measures)), where=is_known)
        is_inside = (place >= 0) & (place < count)
        bins = np.where(is_inside, place, 0.0).astype(np.int64)
        inside = measures[np.arange(len(measures)), histogram.SCORES + bins]
        score = np.where(is_inside, inside, outside)
        is_scored = is_known & (self._fast_side | (place >= 0))
        return Judgements(np.where(is_scored, score, 0.0), median, spread, seen)


class Hbos(ScoredBins):
    """Flags calls in bins that hold too few; 200 bins, score by -log2 of the share of calls in the bin.

    Source: Goldstein and Dengel, KI 2012; the C++ Chimbuko's default.
    """

    name = "hbos"


class Copod(ScoredBins):
    """Flags calls far out in a tail of their peak.

    The score is that of the centre of the call's bin, and bins have Scott's width: the larger of the mean
    and the skew-weighted sum of -log2 of both tails' shares. Below a skewness of 1 the left one counts,
    above -1 the right one. Source: Li et al., ICDM 2020; the C++ Chimbuko.
    """

    name = "copod"
    judges_by_tails = True
