"""Packing of raw rows for the flight recorder, compiled; wrapped by ``ad.handoff.flightrecorder``.

``chimbuko.core.calls.rawrows`` describes the packed rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.kernels.arrays import nones, zeros
from chimbuko.core.kernels.declare import Whole, inner, kernel
from chimbuko.core.traceschema import (
    COMM_PARTNER,
    COMM_PROGRAM,
    COMM_RANK,
    COMM_SIZE,
    COMM_TAG,
    COMM_THREAD,
    COMM_TIME,
    COMM_TYPE,
    COUNTER_NUMBER,
    COUNTER_PROGRAM,
    COUNTER_RANK,
    COUNTER_THREAD,
    COUNTER_TIME,
    COUNTER_VALUE,
    EVENT_PROGRAM,
    EVENT_RANK,
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TIMER,
    EVENT_TYPE,
    MAX_TIME_US,
    OPERATION_COMMUNICATOR,
    OPERATION_KIND,
    OPERATION_NUMBER,
    OPERATION_PEER,
    OPERATION_PROGRAM,
    OPERATION_RANK,
    OPERATION_SIZE,
    OPERATION_THREAD,
    OPERATION_TIME,
    Operation,
)

FULL = -1
NOBODY = -1
_KIND_BITS = np.uint64(48)
_THREAD_BITS = np.uint64(32)
_SMALL = np.uint64(16)
_COLLECTIVE = np.uint64(Operation.COLLECTIVE)
_ZERO = np.uint64(0)


@kernel
def pack_events(
    rows: npt.NDArray[np.uint64],
    rank: np.uint64,
    since_us: np.uint64,
    room: npt.NDArray[np.uint64],
    times: npt.NDArray[np.uint64],
) -> int:
    """Pack the rows, uint64[n, 6], of ``rank`` from ``since_us`` on into ``room``, uint64[m, 2].

    Rows whose numbers do not fit are damaged, and left out. ``times``, uint64[2], is widened to the earliest
    and latest time of the others.

    Returns the number of packed rows, or ``FULL`` where there was no room for one.
    """
    count = 0
    first, last = times[0], times[1]
    for i in range(len(rows)):
        thread, kind = rows[i, EVENT_THREAD], rows[i, EVENT_TYPE]
        timer, time = rows[i, EVENT_TIMER], rows[i, EVENT_TIME]
        if (
            rows[i, EVENT_PROGRAM] != _ZERO
            or rows[i, EVENT_RANK] != rank
            or (thread | kind) >> _SMALL != _ZERO
        ):
            continue
        if timer >> _THREAD_BITS != _ZERO or time < since_us or time >= np.uint64(MAX_TIME_US):
            continue
        if count == len(room):
            return FULL
        room[count, 0] = time
        room[count, 1] = timer | thread << _THREAD_BITS | kind << _KIND_BITS
        first = min(first, time)
        last = max(last, time)
        count += 1
    times[0], times[1] = first, last
    return count


@kernel
def pack_messages(
    rows: npt.NDArray[np.uint64],
    rank: np.uint64,
    since_us: np.uint64,
    room: npt.NDArray[np.uint64],
    times: npt.NDArray[np.uint64],
) -> int:
    """Pack messages as ``pack_events`` does events, from uint64[n, 8] into uint64[m, 5]."""
    count = 0
    for i in range(len(rows)):
        thread, kind, time = rows[i, COMM_THREAD], rows[i, COMM_TYPE], rows[i, COMM_TIME]
        if rows[i, COMM_PROGRAM] != _ZERO or rows[i, COMM_RANK] != rank or (thread | kind) >> _SMALL != _ZERO:
            continue
        if time < since_us or time >= np.uint64(MAX_TIME_US):
            continue
        if count == len(room):
            return FULL
        room[count, 0] = time
        room[count, 1] = rows[i, COMM_PARTNER]
        room[count, 2] = rows[i, COMM_SIZE]
        room[count, 3] = rows[i, COMM_TAG]
        room[count, 4] = thread << _THREAD_BITS | kind << _KIND_BITS
        times[0] = min(times[0], time)
        times[1] = max(times[1], time)
        count += 1
    return count


@kernel
def pack_counters(
    rows: npt.NDArray[np.uint64],
    rank: np.uint64,
    since_us: np.uint64,
    room: npt.NDArray[np.uint64],
    times: npt.NDArray[np.uint64],
) -> int:
    """Pack counter values as ``pack_events`` does events, from uint64[n, 6] into uint64[m, 3]."""
    count = 0
    for i in range(len(rows)):
        thread, counter, time = rows[i, COUNTER_THREAD], rows[i, COUNTER_NUMBER], rows[i, COUNTER_TIME]
        if rows[i, COUNTER_PROGRAM] != _ZERO or rows[i, COUNTER_RANK] != rank or thread >> _SMALL != _ZERO:
            continue
        if counter >> _THREAD_BITS != _ZERO or time < since_us or time >= np.uint64(MAX_TIME_US):
            continue
        if count == len(room):
            return FULL
        room[count, 0] = time
        room[count, 1] = rows[i, COUNTER_VALUE]
        room[count, 2] = counter | thread << _THREAD_BITS
        times[0] = min(times[0], time)
        times[1] = max(times[1], time)
        count += 1
    return count


@kernel
def pack_operations(
    rows: npt.NDArray[np.uint64],
    rank: np.uint64,
    since_us: np.uint64,
    room: npt.NDArray[np.uint64],
    times: npt.NDArray[np.uint64],
) -> int:
    """Pack collective operations as ``pack_events`` does events, from uint64[n, 10] into uint64[m, 6]."""
    count = 0
    for i in range(len(rows)):
        thread, kind, time = rows[i, OPERATION_THREAD], rows[i, OPERATION_KIND], rows[i, OPERATION_TIME]
        if rows[i, OPERATION_PROGRAM] != _ZERO or rows[i, OPERATION_RANK] != rank or kind != _COLLECTIVE:
            continue
        if thread >> _SMALL != _ZERO or time < since_us or time >= np.uint64(MAX_TIME_US):
            continue
        if count == len(room):
            return FULL
        room[count, 0] = time
        room[count, 1] = rows[i, OPERATION_COMMUNICATOR]
        room[count, 2] = rows[i, OPERATION_PEER]
        room[count, 3] = rows[i, OPERATION_NUMBER]
        room[count, 4] = rows[i, OPERATION_SIZE]
        room[count, 5] = thread << _THREAD_BITS | kind << _KIND_BITS
        times[0] = min(times[0], time)
        times[1] = max(times[1], time)
        count += 1
    return count


@kernel
def open_at(
    before: npt.NDArray[np.uint64],
    events: npt.NDArray[np.uint64],
    until_us: np.uint64,
    entry_kind: np.uint64,
    exit_kind: np.uint64,
    still: npt.NDArray[np.uint64],
) -> int:
    """Write into ``still`` the ENTRY rows of the calls that are open at ``until_us``; return their number.

    The rows of each thread stand outermost first.

    Parameters
    ----------
    before
        Packed ENTRY rows of the calls open before ``events``, of each thread outermost first; uint64[n, 2].
    events
        Packed rows, of which those before ``until_us`` count; uint64[m, 2]. An EXIT ends the innermost open
        call of its timer and all inside it; without one it means nothing.
    still
        uint64[n + m, 2].
    """
    total = len(before) + len(events)
    outer = nones(total)
    top = nones(np.int64(1 << 16))
    is_open = zeros(total)
    for i in range(total):
        time_us, what = _row_of(before, events, i)
        if i >= len(before) and time_us >= until_us:
            continue
        thread = what >> _THREAD_BITS & np.uint64(0xFFFF)
        if i < len(before) or what >> _KIND_BITS == entry_kind:
            outer[i] = top[thread]
            top[thread] = i
            is_open[i] = 1
        elif what >> _KIND_BITS == exit_kind:
            timer = what & np.uint64(0xFFFFFFFF)
            at = top[thread]
            while at != NOBODY:
                _, entered = _row_of(before, events, np.int64(at))
                if entered & np.uint64(0xFFFFFFFF) == timer:
                    break
                at = outer[at]
            if at == NOBODY:
                continue
            while top[thread] != outer[at]:
                is_open[top[thread]] = 0
                top[thread] = outer[top[thread]]
    count = 0
    for i in range(total):
        if is_open[i]:
            time_us, what = _row_of(before, events, i)
            still[count, 0] = time_us
            still[count, 1] = what
            count += 1
    return count


@inner
def _row_of(
    before: npt.NDArray[np.uint64], events: npt.NDArray[np.uint64], i: Whole
) -> tuple[np.uint64, np.uint64]:
    """Return both numbers of a row of ``before``, or, counted on, of ``events``."""
    if i < len(before):
        return before[i, 0], before[i, 1]
    return events[i - len(before), 0], events[i - len(before), 1]
