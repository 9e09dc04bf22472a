"""Counting runtimes in buckets, compiled; ``chimbuko.core.buckets`` describes these.

Counts merge by addition, exactly and in any order, whatever the runtimes; bounds that follow the data could
not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.buckets import BUCKETS, LN_EDGES
from chimbuko.core.kernels.arrays import fill, first_above
from chimbuko.core.kernels.declare import inlined, kernel

_MANTISSA_SHIFT = 52 - 3
_ONE = 1023 << 3


@inlined
def bucket_of(runtime_us: float) -> int:
    """Return the bucket of a runtime: the exponent and the three highest bits of the mantissa of its
    double.
    """
    if runtime_us < 1.0:
        return 0
    bits = np.float64(runtime_us).view(np.int64)
    return min(int(bits >> _MANTISSA_SHIFT) - _ONE + 1, BUCKETS - 1)


@kernel
def count_above(counts: npt.NDArray[np.float64], above: npt.NDArray[np.float64]) -> int:
    """Fill ``above``, float64[BUCKETS + 1], with how many calls lie in each bucket or higher; return the
    highest in use.

    The result is -1 where ``counts``, float64[BUCKETS], is empty.
    """
    highest = -1
    above[BUCKETS] = 0.0
    for bucket in range(BUCKETS - 1, -1, -1):
        above[bucket] = above[bucket + 1] + counts[bucket]
        if highest < 0 and counts[bucket] > 0:
            highest = bucket
    return highest


@kernel
def exceeded_by(above: npt.NDArray[np.float64], edges: npt.NDArray[np.float64], rank: float) -> float:
    """Return the value that ``rank`` calls exceed.

    ``above``, float64[BUCKETS + 1], comes from ``count_above``; ``edges``, float64[BUCKETS + 1], are those of
    the buckets, in the unit of the value. Calls are taken as spread evenly over their bucket.
    """
    low, high = 0, BUCKETS
    while high - low > 1:
        middle = (low + high) // 2
        if above[middle] >= rank:
            low = middle
        else:
            high = middle
    count = above[low] - above[high]
    share = (above[low] - rank) / count if count > 0 else 0.0
    return edges[low] + share * (edges[high] - edges[low])


@kernel
def scaled(counts: npt.NDArray[np.float64], ln_factor: float, into: npt.NDArray[np.float64]) -> None:
    """Write ``counts``, float64[BUCKETS], as if every runtime had been longer by a factor, into ``into``,
    float64[BUCKETS].

    Calls are taken as spread evenly, in the logarithm, over their bucket; those below 1 µs stay.
    """
    fill(into, 0.0)
    into[0] = counts[0]
    for bucket in range(1, BUCKETS):
        if counts[bucket] == 0.0:
            continue
        low = LN_EDGES[bucket] + ln_factor
        high = LN_EDGES[bucket + 1] + ln_factor
        target = min(max(first_above(LN_EDGES, low) - 1, 0), BUCKETS - 1)
        begin = low
        while target < BUCKETS - 1 and LN_EDGES[target + 1] < high:
            into[target] += counts[bucket] * (LN_EDGES[target + 1] - begin) / (high - low)
            begin = LN_EDGES[target + 1]
            target += 1
        into[target] += counts[bucket] * (high - begin) / (high - low)
