"""End of a function's ordinary runtimes, from bucket counts, compiled; wrapped by ``ad.detectors.robust``.

The tail of the slowest common mode is taken as log-normal: the logarithm of the runtime against the
normal quantile is a straight line there, which holds exactly for log-normal runtimes, within 4 % for
gamma ones, and bends far too little to matter elsewhere. The few largest calls, among which the
anomalies are, take no part in the fit. docs/internals/detection.md has the evidence for each constant.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from chimbuko.core.buckets import BUCKETS, PER_DOUBLING
from chimbuko.core.config import LEAST_CALLS
from chimbuko.core.kernels.arrays import first_above, total
from chimbuko.core.kernels.buckets import count_above, exceeded_by
from chimbuko.core.kernels.declare import inner, kernel

COMMON_SHARE = 0.004
"""Least share of a function's calls, one in 250, with which one of its modes counts as ordinary."""
COMMON_CALLS = 16.0
"""Least number of calls with which a mode counts as ordinary, however small its share is."""
GAP = 0.2
"""Share of a mode's calls below which a factor of two is the lower end of the mode."""
POINTS = 14
"""Maximum number of points of the fit, each at sqrt(2) times the share of calls of the one before."""
FEWEST_POINTS = 5
MORE_POINTS = 7
AGREEMENT = 0.3
"""Relative difference of slopes up to which more points are used; beyond it another mode bends the line."""
MOST_SLOPE = 1.2
"""Maximum slope: log-normal runtimes have slope σ, and a steeper one is the gap between two modes."""
PRIOR_SLOPE = 0.3
PRIOR_WEIGHT = 4.0
CAUTION = 1.0
"""Number of standard errors by which the slope is enlarged."""
FALSE_SHARE = 0.04
"""Expected share of ordinary calls among those beyond the limit (Benjamini and Hochberg 1995)."""
FEWEST_FALSE = 0.02
"""Expected number of calls beyond the limit, of all calls of the function, where none lies there."""
LOOSEST = 30.0
"""Maximum share of ordinary calls beyond the limit, as a multiple of the share that the threshold stands for.
"""
FEWEST_CALLS = float(LEAST_CALLS)
YOUNG_CALLS = 1000.0
YOUNG_REACH = 2.0
"""Minimum distance of the limit from the median, in medians, below 1,000 calls: a second mode may not have
shown itself yet.
"""
ROUNDS = 3
"""Number of fits; each leaves out the calls that the one before found beyond the limit."""

CENTRE_Z, CENTRE, SLOPE, MODE_SHARE, MEDIAN, SEEN = range(6)
FIT_CELLS = 6
"""Width of a fit: the line (z, logarithm, slope), the share of calls in its mode, the median of all, their
number.
"""


@kernel
def upper_tail(z: float) -> float:
    """Return the share of a normal distribution above ``z``."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


@kernel
def upper_tails(z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ``upper_tail`` of each, float64[n]."""
    shares = np.empty(len(z))
    for i in range(len(z)):
        shares[i] = upper_tail(z[i])
    return shares


@kernel
def tail_quantile(share: float) -> float:
    """Return the z that ``share`` of a normal distribution exceeds; inverse of ``upper_tail``."""
    if share > 0.5:
        return -tail_quantile(1.0 - share)
    # Hastings (Approximations for Digital Computers, sheet 68) to 4.5e-4, then two steps of Halley.
    t = math.sqrt(-2.0 * math.log(max(share, 1e-300)))
    z = t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (
        1.0 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t
    )
    for _ in range(2):
        error = (upper_tail(z) - share) * math.sqrt(2.0 * math.pi) * math.exp(0.5 * z * z)
        z += error / (1.0 - 0.5 * z * error)
    return z


@inner
def _calls_of_slowest_mode(
    above: npt.NDArray[np.float64], highest: int, left_out: float, fewest: float
) -> float:
    """Return how many calls belong to the slowest mode that has at least ``fewest``."""
    for bucket in range(highest, 0, -1):
        calls = above[bucket] - left_out
        if calls >= fewest and above[max(bucket - PER_DOUBLING, 0)] - above[bucket] < GAP * calls:
            return calls
    return above[0] - left_out


@inner
def _line(
    z: npt.NDArray[np.float64], y: npt.NDArray[np.float64], count: int
) -> tuple[float, float, float, float]:
    """Return least squares through the first points: centre z, centre y, slope, sum of squares of z."""
    centre_z, centre_y = total(z[:count]) / count, total(y[:count]) / count
    squares, products = 0.0, 0.0
    for i in range(count):
        squares += (z[i] - centre_z) * (z[i] - centre_z)
        products += (z[i] - centre_z) * (y[i] - centre_y)
    return centre_z, centre_y, products / squares, squares


@inner
def _fit(
    above: npt.NDArray[np.float64],
    highest: int,
    left_out: float,
    edges: npt.NDArray[np.float64],
    z: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    fit: npt.NDArray[np.float64],
) -> None:
    """Fit the tail of the slowest common mode, without the ``left_out`` largest calls, into ``fit``."""
    calls = above[0] - left_out
    fewest = max(COMMON_SHARE * calls, COMMON_CALLS)
    mode_calls = _calls_of_slowest_mode(above, highest, left_out, fewest)
    beyond = min(fewest, 0.5 * mode_calls)
    share = beyond / mode_calls
    count = 0
    while count < POINTS and share <= 0.75:
        z[count] = tail_quantile(share)
        y[count] = exceeded_by(above, edges, share * mode_calls + left_out)
        share *= math.sqrt(2.0)
        count += 1
    used = min(FEWEST_POINTS, count)
    centre_z, centre_y, slope, squares = _line(z, y, used)
    for more in (MORE_POINTS, POINTS):
        if count > used:
            wider_z, wider_y, wider_slope, wider_squares = _line(z, y, min(more, count))
            if abs(wider_slope - slope) > AGREEMENT * slope:
                break
            centre_z, centre_y, slope, squares, used = (
                wider_z,
                wider_y,
                wider_slope,
                wider_squares,
                min(more, count),
            )
    weight = beyond * squares
    slope = (min(max(slope, 0.0), MOST_SLOPE) * weight + PRIOR_SLOPE * PRIOR_WEIGHT) / (weight + PRIOR_WEIGHT)
    slope *= 1.0 + CAUTION / math.sqrt(beyond * math.sqrt(2.0) ** (used - 1))
    fit[CENTRE_Z] = centre_z
    fit[CENTRE] = centre_y
    fit[SLOPE] = slope
    fit[MODE_SHARE] = mode_calls / calls


@inner
def _ln_at(fit: npt.NDArray[np.float64], share: float) -> float:
    """Return the logarithm of the runtime that ``share`` of the ordinary calls exceed."""
    return fit[CENTRE] + fit[SLOPE] * (tail_quantile(min(share / fit[MODE_SHARE], 0.5)) - fit[CENTRE_Z])


@inner
def _bucket_at(edges: npt.NDArray[np.float64], ln_us: float) -> int:
    return min(max(first_above(edges, ln_us) - 1, 0), BUCKETS - 1)


@inner
def _calls_above(above: npt.NDArray[np.float64], edges: npt.NDArray[np.float64], ln_us: float) -> float:
    bucket = _bucket_at(edges, ln_us)
    share = (ln_us - edges[bucket]) / (edges[bucket + 1] - edges[bucket])
    return above[bucket] - min(max(share, 0.0), 1.0) * (above[bucket] - above[bucket + 1])


@inner
def _limit_ln(
    above: npt.NDArray[np.float64],
    edges: npt.NDArray[np.float64],
    fit: npt.NDArray[np.float64],
    ordinary_share: float,
) -> float:
    """Return the lowest limit beyond which at most ``FALSE_SHARE`` of the calls are expected to be
    ordinary.
    """
    calls = above[0]
    share = LOOSEST * ordinary_share
    limit = _ln_at(fit, share)
    for _ in range(20):
        found = _calls_above(above, edges, limit)
        share = max(FALSE_SHARE * found, FEWEST_FALSE) / calls
        share = min(max(share, ordinary_share), LOOSEST * ordinary_share)
        higher = _ln_at(fit, share)
        if higher <= limit + 1e-4:
            break
        limit = higher
    return limit


@kernel
def limits_beyond(
    counts: npt.NDArray[np.float64],
    edges: npt.NDArray[np.float64],
    ordinary_shares: npt.NDArray[np.float64],
    limits: npt.NDArray[np.float64],
    fits: npt.NDArray[np.float64],
) -> None:
    """Find the limits of ordinary calls, towards the higher buckets.

    Parameters
    ----------
    counts
        Calls of each function by runtime, float64[rows, BUCKETS]; from the last bucket to the first to find
        the limit towards short runtimes.
    edges
        Logarithms of the buckets' edges in µs, ascending; negated for short runtimes; float64[BUCKETS + 1].
    ordinary_shares
        Share of ordinary calls that may always lie beyond the limit, float64[rows].
    limits
        Limits on the scale of ``edges``, infinite for functions with fewer than ``FEWEST_CALLS`` calls;
        float64[rows], filled.
    fits
        Fitted lines, with a slope of 0 where there is no fit; float64[rows, FIT_CELLS], filled.
    """
    above = np.empty(BUCKETS + 1)
    z = np.empty(POINTS)
    y = np.empty(POINTS)
    for row in range(len(counts)):
        fit = fits[row]
        highest = count_above(counts[row], above)
        fit[SEEN] = above[0]
        fit[SLOPE] = 0.0
        fit[MEDIAN] = exceeded_by(above, edges, 0.5 * above[0]) if highest >= 0 else np.nan
        limits[row] = np.inf
        if above[0] < FEWEST_CALLS:
            continue
        limit, left_out = np.inf, 0.0
        for _ in range(ROUNDS):
            _fit(above, highest, left_out, edges, z, y, fit)
            limit = _limit_ln(above, edges, fit, ordinary_shares[row])
            beyond = min(above[_bucket_at(edges, limit) + 1], COMMON_SHARE * above[0] + 3.0)
            if beyond == left_out:
                break
            left_out = beyond
        reach = 1.0 + YOUNG_REACH * min(1.0, YOUNG_CALLS / above[0])
        limits[row] = max(limit, fit[MEDIAN] + math.log(reach))
