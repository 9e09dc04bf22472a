"""Time of callees that are left out at times, compiled; wrapped by ``ad.analysis.detection``.

The time of a call that is not recorded is its caller's own. So the caller's own time is another one with it
than without it, unless the time of such callees always counts as the caller's own, also where they are
recorded.
"""

from __future__ import annotations

import numpy as np

from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Table, UInt8Array
from chimbuko.core.kernels.declare import kernel


@kernel
def add_to_callers(calls: Table, count: int, is_left_out: UInt8Array, is_caller: UInt8Array) -> int:
    """Add the own time of ended calls of functions that are left out at times to their callers'
    ``at_times_us``; return the number of functions that are callers for the first time.

    Parameters
    ----------
    is_left_out, is_caller
        Whether each function is left out at times, and whether it calls one that is; uint8[timers]. The
        latter is set for the callers that are found.
    """
    found = 0
    # Callees stand behind their callers, so that a callee's own is complete before its caller gets it.
    for at in range(count - 1, -1, -1):
        call = calls[at]
        if call.exit == 0 or call.parent == NONE or is_left_out[call.function] == 0:
            continue
        own_us = np.float32(call.exit - call.entry - call.child_us)
        caller = calls[call.parent]
        caller.at_times_us += own_us + call.at_times_us
        if is_caller[caller.function] == 0:
            is_caller[caller.function] = 1
            found += 1
    return found
