"""The default detector: a call is abnormal beyond the end of its function's ordinary runtimes.

That end is extrapolated from the spread of the bulk of the calls, so the abnormal calls, which are among the
statistics, do not move the limit. docs/detection.md compares it with others.
"""

from __future__ import annotations

import numpy as np

from chimbuko.ad.detectors import Judgements, Limits
from chimbuko.ad.kernels import tail
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import LN_EDGES
from chimbuko.core.config import FEW_CALLS, AnalysisConfig
from chimbuko.core.statistics.schema import BUCKETED_PROFILE

_BACKWARDS = np.ascontiguousarray(-LN_EDGES[::-1])
_BACKWARDS.flags.writeable = False


FEW_TIMES = 5.0
FEW_LEAST_US = 100_000.0
"""Factor and time by which a call of a function with few calls must be longer than all but its longest ones:
few values have no tail.
"""
FEW_SHARE = 0.1
"""Share of the calls, but at least one call, that may be abnormal: what comes more often is how it runs."""


class Robust:
    """Flags what lies beyond the tail of the function's slowest common mode.

    The threshold is in standard deviations of a normal distribution: at 4.5 one in 290,000 ordinary
    calls may always be flagged; as many more as are expected to be one in twenty of those flagged, where
    there are many. Below 38 calls, which have no tail to speak of, a call is abnormal that is five times as
    long as nearly all others, and 100 ms longer.
    """

    name = "robust"
    schema = BUCKETED_PROFILE
    recheck_growth = 0.125

    def __init__(self, config: AnalysisConfig) -> None:
        self._buckets = BUCKETED_PROFILE.slices["buckets"]
        self._fast_side = config.fast_side

    def limits(self, table: Float64Array, thresholds: Float64Array) -> Limits:
        """Return limits; there is no lower one unless short calls are looked for."""
        counts = table[:, self._buckets]
        upper, fits = self._beyond(counts, LN_EDGES, thresholds)
        _limit_few(counts, thresholds, upper, fits)
        edges_us = np.full((len(table), 2), -np.inf)
        edges_us[:, 1] = np.exp(upper)
        if self._fast_side:
            lower, _ = self._beyond(counts[:, ::-1], _BACKWARDS, thresholds)
            edges_us[:, 0] = np.exp(-lower)
        return Limits(edges_us, np.exp(fits[:, tail.MEDIAN]), fits)

    def judge(self, measures: Float64Array, runtimes_us: Float64Array) -> Judgements:
        """Judge by the normal quantile that is exceeded as seldom as the runtime; 0 for young functions."""
        slope, share = measures[:, tail.SLOPE], measures[:, tail.MODE_SHARE]
        is_known = slope > 0
        median_us = np.exp(measures[:, tail.MEDIAN])
        distance = np.log(np.maximum(runtimes_us, 0.5)) - measures[:, tail.CENTRE]
        z = measures[:, tail.CENTRE_Z] + np.divide(
            distance, slope, out=np.zeros(len(measures)), where=is_known
        )
        # A mode that holds few of the calls makes its tail rarer: exp(-z²/2) times its share.
        rarer = -2.0 * np.log(np.where(is_known, share, 1.0))
        score = np.where(is_known, np.sqrt(z * z + np.where(z > 0, rarer, 0.0)), 0.0)
        spread_us = np.where(is_known, median_us * np.expm1(slope), 0.0)
        return Judgements(score, median_us, spread_us, measures[:, tail.SEEN])

    @staticmethod
    def _beyond(
        counts: Float64Array, edges: Float64Array, thresholds: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        limits = np.empty(len(counts))
        fits = np.zeros((len(counts), tail.FIT_CELLS))
        shares = tail.upper_tails(thresholds)
        tail.limits_beyond(np.ascontiguousarray(counts), edges, shares, limits, fits)
        return limits, fits


def _limit_few(
    counts: Float64Array, thresholds: Float64Array, upper: Float64Array, fits: Float64Array
) -> None:
    """Give functions with too few calls for a tail a limit far beyond all but their longest calls.

    Their score reaches the threshold there, and is 0 at the longest of the others.
    """
    calls = fits[:, tail.SEEN]
    is_few = (calls >= FEW_CALLS) & (calls < tail.FEWEST_CALLS) & (thresholds > 0.0)
    rows = np.flatnonzero(is_few)
    if not len(rows):
        return
    allowed = np.maximum(1.0, np.floor(FEW_SHARE * calls[rows]))
    above = np.cumsum(counts[rows, ::-1], axis=1)[:, ::-1]
    others = (above > allowed[:, None]).sum(axis=1) - 1
    longest_us = np.exp(LN_EDGES[others + 1])
    upper[rows] = np.log(np.maximum(FEW_TIMES * longest_us, longest_us + FEW_LEAST_US))
    fits[rows, tail.CENTRE_Z] = 0.0
    fits[rows, tail.CENTRE] = LN_EDGES[others + 1]
    fits[rows, tail.SLOPE] = (upper[rows] - LN_EDGES[others + 1]) / thresholds[rows]
    fits[rows, tail.MODE_SHARE] = 1.0
