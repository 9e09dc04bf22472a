"""Following the call paths of a step, and learning the usual runtime on each, compiled; wrapped by
``ad.calls.callpaths`` and ``ad.calls.callpaths``.

The usual runtime of a path takes a few bytes, and a few nanoseconds a call.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Float64Array, Int64Array, Table, UInt64Array
from chimbuko.core.kernels.arrays import zeros
from chimbuko.core.kernels.declare import inlined, inner, kernel
from chimbuko.core.kernels.paths import OTHERS, begin_path, child_of

FIRST = 8
"""Number of first calls on a path that are kept one by one; the usual runtime begins as their median."""
MEMORY = 64
"""Divisor of a later call's distance from the usual runtime: the usual runtime moves by that, and by a
doubling at most.
"""
EACH = 256
"""Number of calls on a path after which only every ``STRIDE``-th call is learned from."""
STRIDE = 16


@kernel
def level_of(runtime_us: float) -> float:
    """Return the logarithm of a runtime to base 2, interpolated linearly between powers of two: quicker than
    a logarithm.
    """
    mantissa, exponent = math.frexp(runtime_us)
    return exponent + 2.0 * mantissa - 2.0


@kernel
def runtime_of(level: float) -> float:
    """Return the runtime of a level, in µs."""
    exponent = math.floor(level)
    return math.ldexp(1.0 + level - exponent, int(exponent))


@inlined
def is_looked_at(seen: np.int64) -> bool:
    """Return whether the call with that number on its path is learned from."""
    return bool(seen <= EACH or seen & (STRIDE - 1) == 0)


@inner
def learn_runtime(usual: Any, first: Float64Array, runtime_us: float) -> None:
    """Learn from a call, which its path has counted.

    Parameters
    ----------
    usual
        ``USUAL`` row of its path.
    first
        Levels of the first calls of the path, float64[``FIRST``].
    """
    # A call shorter than a clock tick did take some time.
    level = level_of(max(runtime_us, 0.5))
    if usual.calls > FIRST:
        usual.level += min(1.0, max(-1.0, level - usual.level)) / MEMORY
        return
    first[usual.calls - 1] = level
    if usual.calls == FIRST:
        usual.level = np.median(first)


@kernel
def expect(calls: Table, usual: Table, clearly: float, expected_us: Float64Array) -> None:
    """Replace the usual runtime of each call's function by that of its path, where that counts.

    Parameters
    ----------
    calls
        ``CALL`` rows.
    clearly
        Factor by which the path has to differ to count; ``FIRST`` calls on it have to be known, too.
    expected_us
        Expected runtimes of the functions, replaced by those of the calls; float64[n].
    """
    for at in range(len(calls)):
        path = calls[at].path
        if path < len(usual) and usual[path].calls >= FIRST:
            own_us = runtime_of(usual[path].level)
            if not (expected_us[at] / clearly < own_us and own_us < expected_us[at] * clearly):
                expected_us[at] = own_us


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
    threads: Table,
    thread_count: int,
) -> None:
    """Give each call that was entered in the step its path; add completed ones to ``rows`` and ``usual``.

    All in one pass: a step's calls are more than the nearest cache holds.

    Parameters
    ----------
    calls, carried, total
        ``CALL`` rows: the number of calls that were carried over, which have their paths, and of all.
    is_named
        Whether each function has a name, uint8[timers]; other calls are not added, nor doubtful ones, as in
        ``label.learn``.
    most_depth
        Calls at this depth or deeper are on path ``OTHERS``.
    rows, slots, count
        See ``child_of``.
    use_inclusive
        Whether usual runtimes are inclusive.
    usual, first
        ``USUAL[paths]``, and float64[paths, ``FIRST``] as in ``learn_runtime``. Calls on ``OTHERS`` and on
        paths beyond have no usual runtime.
    threads, thread_count
        ``THREAD`` rows, and the number of those in use: of the open calls of each the time until its last
        event is added, so that times of a thread add up to that from its first to its last event.
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
            call.spent_us = 0
            rows[np.uint64(path)].begun += 1
        if call.exit != 0:
            _spend(rows[np.uint64(call.path)], call, np.int64(call.exit - call.entry - call.child_us))
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
                own_us = exclusive_us + call.at_times_us
                learn_runtime(known, first[call.path], inclusive_us if use_inclusive else own_us)
    for number in range(thread_count):
        last_us = threads[number].last_time
        inside_us = 0
        at = int(threads[number].top)
        while at != NONE:
            call = calls[np.uint64(at)]
            open_us = int(max(last_us, call.entry) - call.entry)
            _spend(rows[np.uint64(call.path)], call, np.int64(open_us - np.int64(call.child_us) - inside_us))
            inside_us = open_us
            at = int(call.parent)


@kernel
def add_by_thread(calls: Table, total: int, paths: int, times: Table) -> None:
    """Add the calls that ended in the step to the times of their threads.

    Parameters
    ----------
    calls, total
        ``CALL`` rows with their paths, and their number.
    paths, times
        Number of paths of each thread, and ``THREAD_TIME[threads * paths]``; threads and paths beyond are
        left out, and so are doubtful calls.
    """
    for at in range(total):
        call = calls[np.uint64(at)]
        row = int(call.thread) * paths + int(call.path)
        if call.exit != 0 and call.doubts == 0 and call.path < paths and row < len(times):
            time = times[np.uint64(row)]
            time.calls += 1
            time.exclusive_us += np.int64(call.exit - call.entry - call.child_us)


@kernel
def note_looks(calls: Table, total: int, looks: Table, threads: npt.NDArray[np.int32], rows: Table) -> None:
    """Add looks at threads to the paths of the innermost calls that were open then.

    Parameters
    ----------
    calls, total
        ``CALL`` rows with their paths, and their number.
    looks, threads
        ``LOOK`` rows by time, and the number of each one's thread in ``calls`` or NONE, int32[looks].
    rows
        ``PATH`` rows.
    """
    count = len(looks)
    found = zeros(count)
    next_look = 0
    for at in range(total):
        entry, exit_ = calls[np.uint64(at)].entry, calls[np.uint64(at)].exit
        # Calls of one thread begin one after the other, those of several threads nearly so.
        while next_look < count and looks[next_look].time_us < entry:
            next_look += 1
        while next_look > 0 and looks[next_look - 1].time_us >= entry:
            next_look -= 1
        number = next_look
        while number < count and (exit_ == 0 or looks[number].time_us < exit_):
            if threads[number] == calls[np.uint64(at)].thread:
                # Who is called stands behind its callers.
                found[number] = at + 1
            number += 1
    for number in range(count):
        if found[number] != 0:
            row = rows[np.uint64(calls[np.uint64(found[number] - 1)].path)]
            row.looked_us += np.float64(looks[number].length_us)
            if looks[number].is_asleep != 0:
                row.asleep_us += np.float64(looks[number].length_us)


@inner
def _spend(row: Any, call: Any, exclusive_us: np.int64) -> None:
    """Add to a path what was spent in a call since that was done last."""
    row.spent_us += np.float64(exclusive_us - call.spent_us)
    call.spent_us = exclusive_us
