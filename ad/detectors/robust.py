"""The default detector: a call is abnormal beyond the end of its function's ordinary runtimes.

That end is extrapolated from the spread of the bulk of the calls, so the abnormal calls, which are among the
statistics, do not move the limit. docs/internals/detection.md compares it with others.
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
"""Share of the calls, but at least one call, that may be abnormal; more frequent runtimes are ordinary."""
SHORTEST_US = 0.5
"""Runtime of a call shorter than a clock tick, in µs."""
AT_LIMIT, THRESHOLD = tail.FIT_CELLS, tail.FIT_CELLS + 1
"""Columns of the measures after those of the fit: quantile of the limit by the line, and the threshold."""
MEASURES = tail.FIT_CELLS + 2
SMALLEST = np.finfo(np.float64).tiny


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
        measures = [_measures(fits, upper, thresholds)]
        if self._fast_side:
            lower, backwards = self._beyond(counts[:, ::-1], _BACKWARDS, thresholds)
            edges_us[:, 0] = np.exp(-lower)
            measures.append(_measures(backwards, lower, thresholds))
        return Limits(edges_us, np.exp(fits[:, tail.MEDIAN]), np.concatenate(measures, axis=1))

    def judge(self, measures: Float64Array, runtimes_us: Float64Array) -> Judgements:
        """Judge by the normal quantile that is exceeded as seldom as the runtime; 0 for young functions."""
        ln_us = np.log(np.maximum(runtimes_us, SHORTEST_US))
        fit = measures[:, :MEASURES]
        score = _score(fit, ln_us)
        if self._fast_side:
            score = np.where(ln_us < fit[:, tail.MEDIAN], _score(measures[:, MEASURES:], -ln_us), score)
        median_us = np.exp(fit[:, tail.MEDIAN])
        spread_us = np.where(fit[:, tail.SLOPE] > 0, median_us * np.expm1(fit[:, tail.SLOPE]), 0.0)
        return Judgements(score, median_us, spread_us, fit[:, tail.SEEN])

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


def _measures(fits: Float64Array, limits: Float64Array, thresholds: Float64Array) -> Float64Array:
    """Return the fits with what the limit's quantile is by the line, and what it stands for."""
    at_limits = _quantile(fits, np.where(fits[:, tail.SLOPE] > 0, limits, fits[:, tail.CENTRE]))
    return np.concatenate([fits, at_limits[:, None], thresholds[:, None]], axis=1)


def _score(measures: Float64Array, ln_us: Float64Array) -> Float64Array:
    """Return the quantile by the line, stretched so that the limit has the threshold for its score.

    Where many delays are, the limit lies lower than where the line reaches the threshold, and for a young
    function further out; what is said of a call has to follow.
    """
    at_limit, threshold = measures[:, AT_LIMIT], measures[:, THRESHOLD]
    # With a threshold near 0 the limit may lie amid the calls: there the line's quantile says nothing.
    stretch = threshold / np.maximum(at_limit, np.maximum(0.5 * threshold, SMALLEST))
    score = threshold + stretch * (_quantile(measures, ln_us) - at_limit)
    return np.where(measures[:, tail.SLOPE] > 0, np.maximum(score, 0.0), 0.0)


def _quantile(fits: Float64Array, ln_us: Float64Array) -> Float64Array:
    """Return the normal quantile that as few calls exceed as the runtime, by the line."""
    is_known = fits[:, tail.SLOPE] > 0
    slope, share = np.where(is_known, fits[:, [tail.SLOPE, tail.MODE_SHARE]].T, 1.0)
    z = fits[:, tail.CENTRE_Z] + (ln_us - fits[:, tail.CENTRE]) / slope
    # A mode that holds few of the calls makes its tail rarer: exp(-z²/2) times its share. Far below the mode,
    # where calls are exceeded by all of it, the quantile ends at 0.
    quantile: Float64Array = np.sqrt(np.maximum(z * np.abs(z) - 2.0 * np.log(share), 0.0))
    return quantile
