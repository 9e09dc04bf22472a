"""Histogram-based outlier score: a call is abnormal where few others of its function are."""

from __future__ import annotations

from chimbuko.ad.detectors.histograms import ScoredBins


class Hbos(ScoredBins):
    """Flags calls in bins that hold too few; 200 bins, score -log2 of the share of calls in the bin.

    Source: Goldstein and Dengel, KI 2012; the C++ Chimbuko's default.
    """

    name = "hbos"
