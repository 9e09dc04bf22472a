"""Scores of runtimes by the histogram of their function, HBOS and COPOD, compiled; wrapped by
``ad.detectors.histograms``.

Histograms have equal bins, rebuilt from the counts of ``chimbuko.core.kernels.buckets`` by splitting each
count uniformly over the bins that its bucket covers. ``chimbuko.ad.detectors.histograms`` says why the
definitions differ from those of the C++ system.
"""

from __future__ import annotations

import math

import numpy as np

from chimbuko.ad.kernels.tail import FEWEST_CALLS, YOUNG_CALLS, YOUNG_REACH, tail_quantile
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.kernels.arrays import fill, first_above, total
from chimbuko.core.kernels.buckets import count_above, exceeded_by
from chimbuko.core.kernels.declare import inner, kernel

BINS = 200
"""Number of bins of HBOS; of COPOD the maximum."""
COMMON_SHARE = 0.004
"""Share of calls, one in 250, from which a way in which the function runs counts as ordinary."""
COMMON_CALLS = 16.0
"""Number of calls from which a way in which the function runs counts as ordinary; of fewer than 128 calls,
one in eight.
"""
REACH = 5.3
"""Distance from the median, in standard deviations, to which a histogram reaches if its common calls are
Gaussian.
"""
ALONE_BINS = 16.0
"""Number of bins, of 200, in which a call stands alone when it is as rare as can be measured."""
GAP_SHARE = ALONE_BINS / BINS
"""Minimum distance of two peaks, as a share of the histogram's range."""
MOST_BITS = 100.0
NOTHING = 78.88e-32
"""Share added to each bin's, so that an empty bin has 100 bits."""
SCOTT = 3.5
"""Bin width of COPOD in standard deviations, times the cube root of the calls (Scott 1979)."""

LOW, WIDTH, COUNT, MEDIAN, SPREAD, SEEN, OUTSIDE = range(7)
SCORES = 7
MEASURES = SCORES + BINS
"""Width of a row of measures: begin, width and number of the bins; median, spread and number of the calls;
the score outside of all bins; then that of each bin.
"""
EDGES = 16
"""Maximum number of edges, twice that of the ranges of ordinary runtimes."""


@inner
def _calls_up_to(above: Float64Array, us: float) -> float:
    bucket = min(max(first_above(EDGES_US, us) - 1, 0), BUCKETS - 1)
    share = (us - EDGES_US[bucket]) / (EDGES_US[bucket + 1] - EDGES_US[bucket])
    inside = min(max(share, 0.0), 1.0) * (above[bucket] - above[bucket + 1])
    return float(above[0] - above[bucket] + inside)


@inner
def _calls_per_bin(above: Float64Array, low: float, width: float, calls: Float64Array) -> None:
    before = _calls_up_to(above, low)
    for number in range(len(calls)):
        up_to = _calls_up_to(above, low + width * (number + 1))
        calls[number] = up_to - before
        before = up_to


@inner
def _range_us(
    counts: Float64Array, above: Float64Array, highest: int, median: float, least: float
) -> tuple[float, float]:
    """Return begin and end of the histogram: around the common runtimes, within those that occurred or up to
    ``least``.
    """
    calls = above[0]
    rare = max(COMMON_SHARE * calls, min(COMMON_CALLS, 0.125 * calls))
    stretch = REACH / tail_quantile(rare / calls)
    begin = median - stretch * (median - exceeded_by(above, EDGES_US, calls - rare))
    end = median + stretch * (exceeded_by(above, EDGES_US, rare) - median)
    lowest = 0
    while counts[lowest] == 0.0:
        lowest += 1
    return max(begin, EDGES_US[lowest]), max(min(end, EDGES_US[highest + 1]), least)


@inner
def _deviation_and_skewness(calls: Float64Array, low: float, width: float) -> tuple[float, float]:
    """Return deviation and skewness of the calls in the bins, each at the centre of its bin; the deviation is
    at least that within a bin.
    """
    of_all = total(calls)
    centre = 0.0
    for number in range(len(calls)):
        centre += calls[number] * (low + width * (number + 0.5))
    centre /= of_all
    squares, cubes = 0.0, 0.0
    for number in range(len(calls)):
        apart = low + width * (number + 0.5) - centre
        squares += calls[number] * apart * apart
        cubes += calls[number] * apart * apart * apart
    deviation = max(math.sqrt(squares / of_all), width / math.sqrt(12.0))
    return deviation, cubes / of_all / (deviation * deviation * deviation)


@inner
def _peaks(
    counts: Float64Array, total: float, low: float, high: float, begins: Float64Array, ends: Float64Array
) -> int:
    """Find runs of calls that hold a common share of all, with gaps between them; return their number."""
    found = 0
    begin, end, inside = low, low, 0.0
    for bucket in range(BUCKETS + 1):
        is_over = bucket == BUCKETS
        if not is_over and (counts[bucket] == 0.0 or EDGES_US[bucket + 1] <= low or EDGES_US[bucket] >= high):
            continue
        if is_over or EDGES_US[bucket] - end >= GAP_SHARE * (high - low):
            if inside >= COMMON_SHARE * total:
                begins[found], ends[found] = begin, end
                found += 1
            if is_over:
                break
            begin, inside = EDGES_US[bucket], 0.0
        inside += counts[bucket]
        end = min(EDGES_US[bucket + 1], high)
    return found


@inner
def _bits(share: float) -> float:
    return -math.log2(share + NOTHING)


@inner
def _copod_score(above: Float64Array, begin: float, end: float, us: float, skewness: float) -> float:
    """Return COPOD's score of a runtime in a peak, in bits."""
    before, after = _calls_up_to(above, begin), _calls_up_to(above, end)
    at = min(max(_calls_up_to(above, us), before), after)
    left, right = _bits((at - before) / (after - before)), _bits((after - at) / (after - before))
    weighted = (left if skewness < 1.0 else 0.0) + (right if skewness > -1.0 else 0.0)
    return min(max(0.5 * (left + right), weighted), MOST_BITS)


@inner
def _to_scale(measures: Float64Array) -> None:
    """Turn the bits of the bins into scores: 0 for those of the commonest bin, 1 for those of the rarest."""
    count = int(measures[COUNT])
    least = measures[SCORES]
    for number in range(1, count):
        least = min(least, measures[SCORES + number])
    most = math.log2(ALONE_BINS * measures[SEEN])
    for number in range(count):
        bits = measures[SCORES + number]
        measures[SCORES + number] = (bits - least) / (most - least) if least < most else 1.0
    measures[OUTSIDE] = (MOST_BITS - least) / (most - least) if least < most else 1.0


@inner
def _write_spans(measures: Float64Array, limit: float, least: float, edges: Float64Array) -> None:
    """Write the ranges of bins that score less than ``limit``, or lie between the median and ``least``.

    Where they are too many the lowest ones are joined. Beyond the last, no bin scores less than one before.
    """
    every = np.empty(BINS + 2)
    found = 0
    for number in range(int(measures[COUNT]) + 1):
        begin = measures[LOW] + measures[WIDTH] * number
        is_ordinary = number < measures[COUNT] and (
            measures[SCORES + number] < limit or measures[MEDIAN] <= begin < least
        )
        if is_ordinary != (found % 2 == 1):
            every[found] = begin
            found += 1
    fill(edges, np.inf)
    left_out = max(found - EDGES, 0)
    for edge in range(found - left_out):
        edges[edge] = every[edge if edge == 0 else edge + left_out]
    highest = 0.0
    for number in range(int(measures[COUNT])):
        if found > 0 and measures[LOW] + measures[WIDTH] * number >= every[found - 1]:
            highest = max(highest, measures[SCORES + number])
            measures[SCORES + number] = highest


@inner
def _score_as_hbos(calls: Float64Array, total: float, measures: Float64Array) -> None:
    for number in range(len(calls)):
        measures[SCORES + number] = min(_bits(calls[number] / total), MOST_BITS)


@inner
def _score_as_copod(
    counts: Float64Array, above: Float64Array, high: float, skewness: float, measures: Float64Array
) -> None:
    """Score each bin in the peak where its score is lowest."""
    low, width, count = measures[LOW], measures[WIDTH], int(measures[COUNT])
    begins, ends = np.empty(BINS), np.empty(BINS)
    peaks = _peaks(counts, above[0], low, high, begins, ends)
    for number in range(count):
        centre = low + width * (number + 0.5)
        least = MOST_BITS
        for peak in range(peaks):
            least = min(least, _copod_score(above, begins[peak], ends[peak], centre, skewness))
        measures[SCORES + number] = least


@kernel
def score_bins(
    counts: Float64Array,
    thresholds: Float64Array,
    judges_by_tails: bool,
    edges: Float64Array,
    measures: Float64Array,
) -> None:
    """Score the bins of each function, and find the ranges of its ordinary runtimes.

    Parameters
    ----------
    counts
        Calls of each function by runtime, float64[rows, BUCKETS].
    thresholds
        Score from which a bin is abnormal, float64[rows].
    edges
        Begin and end of each range in turn in µs, then infinity; float64[rows, EDGES], filled. All runtimes
        are ordinary for functions with fewer than ``FEWEST_CALLS`` calls.
    measures
        float64[rows, MEASURES], filled.
    """
    above = np.empty(BUCKETS + 1)
    for row in range(len(counts)):
        own = measures[row]
        fill(own, 0.0)
        highest = count_above(counts[row], above)
        seen = above[0]
        own[SEEN] = seen
        own[MEDIAN] = exceeded_by(above, EDGES_US, 0.5 * seen) if highest >= 0 else np.nan
        fill(edges[row], np.inf)
        edges[row, 0] = -np.inf
        if seen < FEWEST_CALLS:
            continue
        young_us = own[MEDIAN] * (1.0 + YOUNG_REACH * min(1.0, YOUNG_CALLS / seen))
        low, high = _range_us(counts[row], above, highest, own[MEDIAN], young_us)
        calls = np.empty(BINS)
        _calls_per_bin(above, low, (high - low) / BINS, calls)
        own[SPREAD], skewness = _deviation_and_skewness(calls, low, (high - low) / BINS)
        count = BINS
        if judges_by_tails:
            scott = SCOTT * own[SPREAD] / seen ** (1.0 / 3.0)
            count = int(min(max(math.ceil((high - low) / scott), 1.0), float(BINS)))
        own[LOW], own[WIDTH], own[COUNT] = low, (high - low) / count, count
        if judges_by_tails:
            _score_as_copod(counts[row], above, high, skewness, own)
        else:
            _score_as_hbos(calls, seen, own)
        _to_scale(own)
        _write_spans(own, thresholds[row], young_us, edges[row])
