"""Coarser levels in which steps and times are kept beside the finest, for pictures of a whole run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import UInt8Array

LEVELS = range(1, 5)
"""Coarser levels, of 8, 64, 512 and 4,096 steps: an hour of 10,000 ranks is 560,000 rows of the second
level."""
MOST_SHOWN = 254
"""Largest number of anomalies that a byte of ``peaks`` tells from others."""

LOST_BOUNDS_US = tuple(2.0 ** (third / 3) for third in range(1, 127))
"""Bounds between the codes of lost times, from code 1 on: codes tell times apart that differ by a fourth."""


def lost_code(us: npt.ArrayLike) -> UInt8Array:
    """Return codes of times: 0 for none, else n for 2 ** ((n - 1) / 3) to 2 ** (n / 3) µs, at most 127."""
    times = np.asarray(us, np.float64)
    codes = 1 + np.searchsorted(LOST_BOUNDS_US, times, side="right")
    return np.where(times > 0, codes, 0).astype(np.uint8)


def lost_code_sql(us: str) -> str:
    """Return the code of a time as an SQL expression without logarithms, which not all databases have."""

    def search(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        bound = repr(LOST_BOUNDS_US[middle - 1])
        return f"CASE WHEN {us} < {bound} THEN {search(low, middle)} ELSE {search(middle + 1, high)} END"

    return f"CASE WHEN {us} > 0 THEN {search(1, len(LOST_BOUNDS_US) + 1)} ELSE 0 END"


TIME_LEVELS_US = (1_000_000, 64_000_000)
"""Length of a bucket of each level of ``time_totals``: a day has 86,400 of the first, 1,350 of the second."""
