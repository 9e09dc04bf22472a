"""Copula-based outlier detection: a call is abnormal where few others of its peak are longer, or shorter."""

from __future__ import annotations

from chimbuko.ad.detectors.histograms import ScoredBins


class Copod(ScoredBins):
    """Flags calls far out in a tail of their peak.

    The score is that of the centre of the call's bin, and bins have Scott's width: the larger of the mean
    and the skew-weighted sum of -log2 of both tails' shares. Below a skewness of 1 the left one counts,
    above -1 the right one. Source: Li et al., ICDM 2020; the C++ Chimbuko.
    """

    name = "copod"
    judges_by_tails = True
