"""Learning runtimes and flagging calls, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Table
from chimbuko.core.kernels.buckets import bucket_of
from chimbuko.core.kernels.declare import kernel
from chimbuko.core.kernels.merge import add_value
from chimbuko.core.kernels.rules import MOMENTS_WIDTH

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
    """Add the completed calls among the first ``count`` to ``table``; returns how many calls were completed.

    Parameters
    ----------
    use_inclusive
        The runtime that is judged: inclusive, or else exclusive.
    buckets_at
        Column of ``table`` where counts of judged runtimes by bucket begin, or ``NO_BUCKETS``.
    table
        f8[timers, width]: exclusive moments, then inclusive moments, then other columns.
    extremes
        f8[timers, 2]: shortest and longest judged runtime of each function, narrowed down to them.
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
        if runtime_us < extremes[function, 0]:
            extremes[function, 0] = runtime_us
        if runtime_us > extremes[function, 1]:
            extremes[function, 1] = runtime_us
    return completed


@kernel
def choose(
    calls: Table,
    count: int,
    looked_at: npt.NDArray[np.uint8],
    use_inclusive: bool,
    edges_us: npt.NDArray[np.float64],
    expected_us: npt.NDArray[np.float64],
    flagged: npt.NDArray[np.int32],
    typical: npt.NDArray[np.int32],
) -> int:
    """Find the calls that are not ordinary for their function, and the most typical ones.

    Parameters
    ----------
    looked_at
        u1[timers]: the functions of whose calls any may be wanted; the others cost a look each.
    edges_us
        f8[timers, edges]: a runtime is ordinary where an odd number of edges lie at or below it.
    expected_us
        f8[timers]: the ordinary call nearest to it is the most typical one.
    flagged
        i4[count]: receives the calls that are not ordinary; the answer is how many.
    typical
        i4[timers]: receives the most typical call of each function that is looked at, or -1.
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
        below = 0
        for edge in range(edges_us.shape[1]):
            if edges_us[function, edge] <= runtime_us:
                below += 1
        distance_us = abs(runtime_us - expected_us[function])
        if below % 2 == 0:
            flagged[found] = call
            found += 1
        elif distance_us < nearest[function]:
            nearest[function] = distance_us
            typical[function] = call
    return found
