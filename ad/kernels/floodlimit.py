"""Choosing which abnormal calls are too many of their function to be recorded, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Table
from chimbuko.core.kernels.declare import inner, kernel

ROOM, AS_OF_US, HIGHEST_US, FOUND = range(4)
"""Columns of a function's allowance: records that there is room for, as of when, the highest severity so
far, and 0 between steps."""
ALLOWANCE_WIDTH = 4


@inner
def _sort_by_severity(order: npt.NDArray[np.int32], severity_us: npt.NDArray[np.float64]) -> None:
    """Sort indices i4[n] by merging: the most severe first, and of two alike the earlier one."""
    merged = np.empty(len(order), np.int32)
    width = 1
    while width < len(order):
        for begin in range(0, len(order), 2 * width):
            middle = min(begin + width, len(order))
            end = min(begin + 2 * width, len(order))
            left, right = begin, middle
            for place in range(begin, end):
                is_left = right == end
                if left < middle and not is_left:
                    is_left = severity_us[order[left]] >= severity_us[order[right]]
                if is_left:
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        for place in range(len(order)):
            order[place] = merged[place]
        width *= 2


@kernel
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
    order = np.empty(len(rows), np.int32)
    for at in range(len(rows)):
        order[at] = at
    if is_flood:
        _sort_by_severity(order, severity_us)
    count = 0
    for place in range(len(rows)):
        at = order[place]
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
