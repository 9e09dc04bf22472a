"""Choosing which abnormal calls are too many of their function to be recorded, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from chimbuko.ad.kernels.stack import Table

ROOM, AS_OF_US, HIGHEST_US, FOUND = range(4)
"""Columns of a function's allowance: records that there is room for, as of when, the highest severity so
far, and 0 between steps."""
ALLOWANCE_WIDTH = 4


@njit(cache=True, nogil=True)
def leave_out(
    rows: npt.NDArray[np.int32],
    is_anomaly: npt.NDArray[np.bool_],
    severity_us: npt.NDArray[np.float64],
    calls: Table,
    carried: int,
    now_us: float,
    most_per_us: float,
    burst: float,
    allowances: npt.NDArray[np.float64],
    left_out: npt.NDArray[np.int32],
) -> int:
    """Write the indices of selected calls that are too many into ``left_out`` i4[n]; returns how many.

    Parameters
    ----------
    carried
        Calls in the first so many rows of ``calls`` are not looked at.
    most_per_us, burst
        How fast the room of a function grows, and up to what.
    allowances
        f8[timers, 4]
    """
    is_flood = False
    for at in range(len(rows)):
        if is_anomaly[at] and rows[at] >= carried:
            allowance = allowances[calls[rows[at]].function]
            if allowance[FOUND] == 0.0:
                # Times of a damaged trace may run back.
                passed_us = max(now_us - allowance[AS_OF_US], 0.0)
                allowance[ROOM] = min(allowance[ROOM] + passed_us * most_per_us, burst)
                allowance[AS_OF_US] = now_us
            allowance[FOUND] += 1.0
            is_flood |= allowance[FOUND] > allowance[ROOM]
    # The most severe first; of two alike the earlier one.
    order = np.argsort(-severity_us, kind="mergesort") if is_flood else np.arange(len(rows))
    count = 0
    for at in order:
        if is_anomaly[at] and rows[at] >= carried:
            allowance = allowances[calls[rows[at]].function]
            allowance[FOUND] = 0.0
            if allowance[ROOM] >= 1.0 or severity_us[at] > allowance[HIGHEST_US]:
                allowance[ROOM] = max(allowance[ROOM] - 1.0, 0.0)
                allowance[HIGHEST_US] = max(allowance[HIGHEST_US], severity_us[at])
            else:
                left_out[count] = at
                count += 1
    return count
