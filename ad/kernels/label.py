"""Learning runtimes, flagging calls, and choosing which flagged calls are too many of their function,
compiled.

Wrapped by ``ad.analysis.streamstatistics`` (``learn``, ``learn_apart``), ``ad.analysis.detection``
(``choose``) and ``ad.calls.selection`` (``leave_out``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Table
from chimbuko.core.kernels.buckets import bucket_of
from chimbuko.core.kernels.declare import inner, kernel
from chimbuko.core.kernels.merge import add_value
from chimbuko.core.kernels.rules import MOMENTS_WIDTH

ROOM, AS_OF_US, HIGHEST_US, FOUND = range(4)
"""Columns of a function's allowance: number of records that there is room for, the time of that number, the
highest severity so far, and the number of calls found in the step, which is 0 between steps.
"""
ALLOWANCE_WIDTH = 4


@inner
def _sort_by_severity(order: npt.NDArray[np.int32], severity_us: npt.NDArray[np.float64]) -> None:
    """Sort indices, int32[n], by merging: the most severe first, and of two alike the earlier one."""
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
    least_us: float,
    allowances: npt.NDArray[np.float64],
    offered: npt.NDArray[np.int64],
    left_out: npt.NDArray[np.int32],
) -> int:
    """Write the indices of selected calls that are too many into ``left_out``, int32[n]; return their number.

    Parameters
    ----------
    carried
        Number of first rows of ``calls`` that are not looked at.
    most_per_us, burst
        Rate at which the room of a function grows, and its maximum.
    least_us
        Severity from which a call is not too many for the node.
    allowances
        Allowance of each function, float64[timers, 4].
    offered
        Receives how many calls of each severity their functions have room for, int64[BUCKETS].
    """
    is_flood = least_us > 0.0
    for at in range(len(rows)):
        if is_anomaly[at] and rows[at] >= carried:
            allowance = allowances[calls[rows[at]].function]
            if allowance[FOUND] == 0.0:
                # Times of a damaged trace may run backwards.
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
            is_highest = severity_us[at] > allowance[HIGHEST_US]
            has_room = allowance[ROOM] >= 1.0 or is_highest
            if has_room:
                offered[bucket_of(severity_us[at])] += 1
                allowance[ROOM] = max(allowance[ROOM] - 1.0, 0.0)
                allowance[HIGHEST_US] = max(allowance[HIGHEST_US], severity_us[at])
            if not has_room or (severity_us[at] < least_us and not is_highest):
                left_out[count] = at
                count += 1
    return count


NO_BUCKETS = -1


@kernel
def learn(
    calls: Table,
    count: int,
    is_named: npt.NDArray[np.uint8],
    use_inclusive: bool,
    buckets_at: int,
    table: npt.NDArray[np.float64],
    extremes: npt.NDArray[np.float64],
) -> int:
    """Add the completed calls among the first ``count`` to ``table``; return the number of completed calls.

    Parameters
    ----------
    use_inclusive
        Whether the runtime that is judged is the inclusive one, and not the exclusive one.
    buckets_at
        Column of ``table`` where counts of judged runtimes by bucket begin, or ``NO_BUCKETS``.
    table
        Exclusive moments, then inclusive moments, then other columns; float64[timers, width].
    extremes
        Shortest and longest judged runtime of each function, widened to include these calls; float64[timers,
        2].
    """
    completed = 0
    for call in range(count):
        time = calls[call].exit
        if time == 0:
            continue
        completed += 1
        function = calls[call].function
        if calls[call].doubts != 0 or is_named[function] == 0:
            continue
        inclusive = time - calls[call].entry
        exclusive = inclusive - calls[call].child_us
        add_value(table[function, 0:MOMENTS_WIDTH], np.float64(exclusive))
        add_value(table[function, MOMENTS_WIDTH : 2 * MOMENTS_WIDTH], np.float64(inclusive))
        runtime_us = np.float64(inclusive if use_inclusive else exclusive)
        if buckets_at != NO_BUCKETS:
            table[function, buckets_at + bucket_of(runtime_us)] += 1.0
        if not use_inclusive:
            runtime_us += calls[call].at_times_us
        if runtime_us < extremes[function, 0]:
            extremes[function, 0] = runtime_us
        if runtime_us > extremes[function, 1]:
            extremes[function, 1] = runtime_us
    return completed


@kernel
def learn_apart(
    calls: Table,
    count: int,
    is_named: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int32],
    by_path: bool,
    use_inclusive: bool,
    buckets_at: int,
    table: npt.NDArray[np.float64],
) -> None:
    """Add the completed calls of some functions, or on some call paths, to a table of their own, with the
    time of callees that are left out at times.

    Parameters
    ----------
    rows
        Row of each function, or of each path, in ``table``, or -1; int32[timers] or int32[paths].
    by_path
        Whether ``rows`` are of paths.
    use_inclusive, buckets_at
        As for ``learn``.
    table
        Moments of the judged runtime, then other columns; float64[rows, width].
    """
    for call in range(count):
        number = np.int64(calls[call].path if by_path else calls[call].function)
        row = rows[number] if number < len(rows) else NONE
        time = calls[call].exit
        if row == NONE or time == 0 or calls[call].doubts != 0 or is_named[calls[call].function] == 0:
            continue
        inclusive = time - calls[call].entry
        runtime_us = np.float64(inclusive if use_inclusive else inclusive - calls[call].child_us)
        if not use_inclusive:
            runtime_us += calls[call].at_times_us
        add_value(table[row, 0:MOMENTS_WIDTH], runtime_us)
        if buckets_at != NO_BUCKETS:
            table[row, buckets_at + bucket_of(runtime_us)] += 1.0


@kernel
def choose(
    calls: Table,
    count: int,
    looked_at: npt.NDArray[np.uint8],
    use_inclusive: bool,
    edges_us: npt.NDArray[np.float64],
    expected_us: npt.NDArray[np.float64],
    path_edges_us: npt.NDArray[np.float64],
    flagged: npt.NDArray[np.int32],
    typical: npt.NDArray[np.int32],
) -> int:
    """Find the calls that are not ordinary for their function or on their call path, and the most typical
    ones; return the number of the former.

    Parameters
    ----------
    looked_at
        Whether calls of each function may be wanted, uint8[timers]; the others cost a look each.
    edges_us
        float64[timers, edges]: a runtime is ordinary where an odd number of edges lie at or below it.
    expected_us
        Expected runtime of each function, float64[timers]: the ordinary call nearest to it is the most
        typical one.
    path_edges_us
        Runtime from which a call on each path is not ordinary there, float64[paths]; further paths have none.
    flagged
        Receives the calls that are not ordinary, int32[count].
    typical
        Receives the most typical call of each function that is looked at, or -1; int32[timers].
    """
    found = 0
    nearest = np.empty(len(typical))
    for function in range(len(typical)):
        typical[function] = NONE
        nearest[function] = np.inf
    for call in range(count):
        function = calls[call].function
        if looked_at[function] == 0:
            continue
        time = calls[call].exit
        if time == 0 or calls[call].doubts != 0:
            continue
        inclusive = time - calls[call].entry
        runtime_us = np.float64(inclusive if use_inclusive else inclusive - calls[call].child_us)
        if not use_inclusive:
            runtime_us += calls[call].at_times_us
        below = 0
        for edge in range(edges_us.shape[1]):
            if edges_us[function, edge] <= runtime_us:
                below += 1
        path = np.int64(calls[call].path)
        is_beyond = path < len(path_edges_us) and runtime_us >= path_edges_us[path]
        distance_us = abs(runtime_us - expected_us[function])
        if below % 2 == 0 or is_beyond:
            flagged[found] = call
            found += 1
        elif distance_us < nearest[function]:
            nearest[function] = distance_us
            typical[function] = call
    return found
