"""The paper's detector: a call is abnormal outside μ ± ασ of its function's runtime."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.detectors import Judgements, Limits
from chimbuko.core.arrays import Float64Array
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import PROFILE


class Sstd:
    """Flags runtimes more than ``threshold`` sample standard deviations from the mean.

    Source: Chimbuko, ISAV'20, section III-B. A value that is itself in the statistics lies at most
    (n - 1)/sqrt(n) standard deviations from the mean, so at 6σ nothing is flagged before the 38th call.
    """

    name = "sstd"
    schema = PROFILE
    recheck_growth = 0.0

    def __init__(self, config: AnalysisConfig) -> None:
        self._fast_side = config.fast_side
        self._columns = PROFILE.slices[f"{config.metric}_us"]

    def limits(self, table: Float64Array, thresholds: Float64Array) -> Limits:
        """Return the limits μ ± ασ; infinite for functions seen less than twice."""
        moments = table[:, self._columns]
        n, mean, m2 = moments[:, 0], moments[:, 1], moments[:, 2]
        variance = np.full(len(table), np.inf)
        np.divide(np.maximum(m2, 0.0), n - 1, out=variance, where=n > 1)
        spread_us = np.sqrt(variance)
        reach_us = thresholds * spread_us
        # The upper limit itself is still ordinary.
        edges_us = np.stack([mean - reach_us, np.nextafter(mean + reach_us, np.inf)], axis=1)
        return Limits(edges_us, mean, np.stack([n, mean, spread_us], axis=1))

    def judge(self, measures: Float64Array, runtimes_us: Float64Array) -> Judgements:
        """Judge by the distance from the mean in standard deviations; 0 on the side that nobody asks for."""
        n, mean, spread_us = measures.T
        is_spread = (spread_us > 0) & np.isfinite(spread_us)
        above_us = runtimes_us - mean
        distance_us = np.abs(above_us) if self._fast_side else np.maximum(above_us, 0.0)
        score = np.divide(distance_us, spread_us, out=np.zeros(len(measures)), where=is_spread)
        return Judgements(score, mean, np.where(is_spread, spread_us, 0.0), n)
