"""Following the call paths of a step, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.stack import NONE
from chimbuko.ad.kernels.usual import is_looked_at, learn_runtime
from chimbuko.core.arrays import Float64Array, Int64Array, Table, UInt64Array
from chimbuko.core.kernels.declare import kernel
from chimbuko.core.kernels.paths import OTHERS, begin_path, child_of


@kernel
def follow_paths(
    calls: Table,
    carried: int,
    total: int,
    is_named: npt.NDArray[np.uint8],
    most_depth: int,
    rows: Table,
    slots: UInt64Array,
    count: Int64Array,
    use_inclusive: bool,
    usual: Table,
    first: Float64Array,
) -> None:
    """Give each call that was entered in the step its path; add completed ones to ``rows`` and ``usual``.

    All in one pass: a step's calls are more than the nearest cache holds.

    Parameters
    ----------
    calls, carried, total
        CALL[...]: the calls that were carried over, which have their paths, and all.
    is_named
        u1[timers]: calls of other functions are not added, nor doubtful ones, as in ``label.learn``.
    most_depth
        Calls at this depth or deeper are on path ``OTHERS``.
    rows, slots, count
        See ``child_of``.
    use_inclusive
        Whether what is usual is of runtimes with the calls inside.
    usual, first
        ``USUAL[paths]``, and f8[paths, ``FIRST``] as in ``learn_runtime``. Calls on ``OTHERS`` and on paths
        beyond have nothing that is usual.
    """
    for at in range(total):
        call = calls[np.uint64(at)]
        if at >= carried:
            path = np.int64(NONE)
            if call.parent != NONE:
                path = np.int64(calls[np.uint64(call.parent)].path)
            if path != OTHERS:
                is_deep = call.depth >= most_depth
                path = np.int64(OTHERS) if is_deep else child_of(path, call.function, rows, slots, count)
            call.path = path
        if call.exit == 0 or call.doubts != 0 or is_named[call.function] == 0:
            continue
        inclusive_us = np.float64(call.exit - call.entry)
        exclusive_us = np.float64(call.exit - call.entry - call.child_us)
        row = rows[np.uint64(call.path)]
        if row.calls == 0:
            begin_path(row)
        row.calls += 1
        row.exclusive_us += exclusive_us
        row.exclusive_squares += exclusive_us * exclusive_us
        row.exclusive_minimum_us = min(row.exclusive_minimum_us, exclusive_us)
        row.exclusive_maximum_us = max(row.exclusive_maximum_us, exclusive_us)
        row.inclusive_us += inclusive_us
        row.inclusive_squares += inclusive_us * inclusive_us
        row.inclusive_minimum_us = min(row.inclusive_minimum_us, inclusive_us)
        row.inclusive_maximum_us = max(row.inclusive_maximum_us, inclusive_us)
        if call.path != OTHERS and call.path < len(usual):
            known = usual[np.uint64(call.path)]
            known.calls += 1
            if is_looked_at(known.calls):
                learn_runtime(known, first[call.path], inclusive_us if use_inclusive else exclusive_us)
