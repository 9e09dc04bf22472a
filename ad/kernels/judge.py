"""Learning runtimes and flagging calls, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from chimbuko.ad.kernels.stack import NONE, Table
from chimbuko.kernels.merge import MOMENTS_WIDTH, add_value


@njit(cache=True, nogil=True)
def learn(
    calls: Table,
    count: int,
    is_named: npt.NDArray[np.uint8],
    table: npt.NDArray[np.float64],
    touched: npt.NDArray[np.uint8],
) -> int:
    """Add the completed calls among the first ``count`` to ``table``; returns how many calls were completed.

    ``table`` f8[timers, width]: exclusive moments, then inclusive moments, then other columns.
    ``touched`` u1[timers] marks the rows that changed.
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
        add_value(table[function, 0:MOMENTS_WIDTH], np.float64(inclusive - calls[call].child_us))
        add_value(table[function, MOMENTS_WIDTH : 2 * MOMENTS_WIDTH], np.float64(inclusive))
        touched[function] = 1
    return completed


@njit(cache=True, nogil=True)
def flag(
    calls: Table,
    count: int,
    is_named: npt.NDArray[np.uint8],
    use_inclusive: bool,
    lower: npt.NDArray[np.float64],
    upper: npt.NDArray[np.float64],
    flagged: npt.NDArray[np.int32],
) -> int:
    """Write into ``flagged`` i4[count] which completed calls lie outside their function's limits.

    ``lower``, ``upper`` f8[timers], in µs. Returns how many there are.
    """
    found = 0
    for call in range(count):
        time = calls[call].exit
        if time == 0 or calls[call].doubts != 0:
            continue
        function = calls[call].function
        if is_named[function] == 0:
            continue
        runtime_us = time - calls[call].entry
        if not use_inclusive:
            runtime_us -= calls[call].child_us
        value = np.float64(runtime_us)
        if value > upper[function] or value < lower[function]:
            flagged[found] = call
            found += 1
    return found


@njit(cache=True, nogil=True)
def most_typical(
    calls: Table,
    count: int,
    use_inclusive: bool,
    lower: npt.NDArray[np.float64],
    upper: npt.NDArray[np.float64],
    wanted: npt.NDArray[np.uint8],
    best: npt.NDArray[np.int32],
) -> None:
    """Write into ``best`` i4[timers] the normal call nearest to the middle of the limits, or -1.

    Only for functions that ``wanted`` u1[timers] marks.
    """
    nearest = np.full(len(best), np.inf)
    best[:] = -1
    for call in range(count):
        function = calls[call].function
        time = calls[call].exit
        if wanted[function] == 0 or time == 0 or calls[call].doubts != 0:
            continue
        runtime_us = time - calls[call].entry
        if not use_inclusive:
            runtime_us -= calls[call].child_us
        value = np.float64(runtime_us)
        if value > upper[function] or value < lower[function]:
            continue
        distance = abs(value - 0.5 * (lower[function] + upper[function]))
        if distance < nearest[function]:
            nearest[function] = distance
            best[function] = call


@njit(cache=True, nogil=True)
def group(
    keys: npt.NDArray[np.int32],
    order: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int32],
) -> None:
    """Sort the indices of ``keys`` i4[n] by key, keeping their order within a key; leave out negative keys.

    ``order`` i4[n] receives the indices, ``starts`` i4[keys + 1] where each key's begin.
    """
    starts[:] = 0
    for key in keys:
        if key >= 0:
            starts[key + 1] += 1
    for key in range(1, len(starts)):
        starts[key] += starts[key - 1]
    position = starts.copy()
    for i in range(len(keys)):
        if keys[i] >= 0:
            order[position[keys[i]]] = i
            position[keys[i]] += 1


@njit(cache=True, nogil=True)
def mark_surroundings(
    calls: Table,
    chosen: npt.NDArray[np.int32],
    carried: int,
    order: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int32],
    reach: int,
    wanted: npt.NDArray[np.uint8],
) -> None:
    """Mark in ``wanted`` u1[calls] the ``chosen`` rows, their ancestors and their neighbours on the thread.

    ``order``, ``starts`` by ``group`` of the threads of the calls from ``carried`` on; ``reach``: neighbours
    on each side.
    """
    for row in chosen:
        wanted[row] = 1
        parent = calls[row].parent
        while parent != NONE:
            wanted[parent] = 1
            parent = calls[parent].parent
        if row >= carried:
            start, end = starts[calls[row].thread], starts[calls[row].thread + 1]
            at = start + np.searchsorted(order[start:end], row - carried)
            for neighbour in order[max(at - reach, start) : min(at + reach + 1, end)]:
                wanted[carried + neighbour] = 1
