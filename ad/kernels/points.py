"""Attaching points, which are messages and counter values, to the calls they fall into, compiled; used by
``ad.kernels.calls`` and wrapped by ``ad.calls.stacks``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.stack import (
    BAD_ORIGIN,
    BAD_THREAD,
    BAD_TIME,
    COUNTER_OUTSIDE_CALLS,
    DONE,
    MAX_THREAD_ID,
    MESSAGE_OUTSIDE_CALLS,
    NEED_THREADS,
    NEVER,
    NONE,
    THREADS,
    new_thread,
)
from chimbuko.core.arrays import Table
from chimbuko.core.kernels.declare import Whole, inner, kernel
from chimbuko.core.traceschema import (
    COLLECTIVE_TYPE,
    COMM_PROGRAM,
    COMM_RANK,
    COMM_THREAD,
    COMM_TIME,
    COMM_TYPE,
    COUNTER_PROGRAM,
    COUNTER_RANK,
    COUNTER_THREAD,
    COUNTER_TIME,
    MAX_TIME_US,
)


@kernel
def is_absurd(time: np.uint64) -> bool:
    """Return whether a time is impossible: 0, or later than the year 2255."""
    return bool(time == 0 or time >= np.uint64(MAX_TIME_US))


@kernel
def chain_points(
    comms: npt.NDArray[np.uint64],
    counters: npt.NDArray[np.uint64],
    rank: np.uint64,
    points: Table,
    attached: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.int32],
    threads: Table,
    progress: npt.NDArray[np.int64],
    losses: npt.NDArray[np.int64],
) -> int:
    """Chain the points of each thread: ``comms``, uint64[m, 8], and ``counters``, uint64[p, 6], each sorted
    by time.

    ``points``, ``POINT`` rows, and ``attached``, int32, are filled up to m + p. Returns ``DONE`` or
    ``NEED_THREADS``; with more threads it begins anew, so losses are counted only at the end.

    A point has nothing but its time to find its call by, so one without a possible time is lost.
    """
    for known in range(progress[THREADS]):
        threads[known].point = NONE
        threads[known].point_time = NEVER
    bad_origin = 0
    bad_thread = 0
    bad_time = 0
    thread_id = np.uint64(NEVER)
    number = NONE
    # From the last one to the first, so that a chain is built at its head.
    comm = len(comms) - 1
    counter = len(counters) - 1
    while comm >= 0 or counter >= 0:
        if counter < 0 or (comm >= 0 and comms[comm, COMM_TIME] >= counters[counter, COUNTER_TIME]):
            at = comm
            row = np.uint64(comm)
            origin = comms[row, COMM_PROGRAM] | (comms[row, COMM_RANK] ^ rank)
            its_thread = comms[row, COMM_THREAD]
            time = comms[row, COMM_TIME]
            comm -= 1
        else:
            at = len(comms) + counter
            row = np.uint64(counter)
            origin = counters[row, COUNTER_PROGRAM] | (counters[row, COUNTER_RANK] ^ rank)
            its_thread = counters[row, COUNTER_THREAD]
            time = counters[row, COUNTER_TIME]
            counter -= 1
        point = points[at]
        point.time = time
        point.next = NONE
        point.is_collective = at < len(comms) and comms[np.uint64(at), COMM_TYPE] == np.uint64(
            COLLECTIVE_TYPE
        )
        attached[at] = NONE
        if origin != 0:
            bad_origin += 1
            continue
        if is_absurd(time):
            bad_time += 1
            continue
        if its_thread != thread_id:
            thread_id = its_thread
            number = numbers[min(thread_id, np.uint64(MAX_THREAD_ID))]
            if number == NONE:
                number = new_thread(thread_id, numbers, threads, progress)
        if number == NONE:
            bad_thread += 1
            continue
        if number == len(threads):
            return NEED_THREADS
        thread = threads[number]
        point.next = thread.point
        thread.point = at
        thread.point_time = time
    losses[BAD_ORIGIN] += bad_origin
    losses[BAD_THREAD] += bad_thread
    losses[BAD_TIME] += bad_time
    return DONE


@inner
def attach_until(
    time: np.uint64,
    thread: Any,
    top: Whole,
    points: Table,
    attached: npt.NDArray[np.int32],
    messages: int,
    calls: Table,
    losses: npt.NDArray[np.int64],
) -> np.uint64:
    """Attach the points of a thread that are older than ``time``; return the time of the next one.

    ``top`` is the thread's innermost open call; the first ``messages`` points are messages.
    """
    at = thread.point
    point_time = thread.point_time
    while point_time < time:
        is_message = at < messages
        call = top
        if point_time == thread.tie_time:
            call = thread.tie_call
            if is_message and thread.tie_mpi != NONE:
                call = thread.tie_mpi
            if points[at].is_collective != 0 and thread.tie_entered != NONE:
                call = thread.tie_entered
        attached[at] = call
        if call == NONE:
            losses[MESSAGE_OUTSIDE_CALLS if is_message else COUNTER_OUTSIDE_CALLS] += 1
        elif is_message:
            calls[call].messages += 1
        at = points[at].next
        point_time = points[at].time if at != NONE else np.uint64(NEVER)
    thread.point = at
    thread.point_time = point_time
    return point_time
