"""Tables that call stacks are kept in, across the steps of a stream, and collection of the open calls,
compiled; wrapped by ``ad.calls.stacks`` and ``ad.handoff.opencalls``.

One table holds the calls of a step: first the calls carried over because they are still open, then one row
per ENTRY, in order of appearance. Parents stand before their children, so a thread's stack is the chain of
parents that begins at its innermost open call. Open calls are collected after every step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Table
from chimbuko.core.kernels.arrays import first_from, sort
from chimbuko.core.kernels.declare import inner, kernel

NONE = -1
NEVER = (1 << 64) - 1

# Flags of a call: any of them keeps it out of statistics and flags.
FIRST = 1
"""Doubt about the first call of a function on its thread: it pays for loading, compiling, caching."""
UNCERTAIN = 2
"""Doubt about a call whose interval or children are not trustworthy (rows lost below it, time running
backwards).
"""
UNKNOWN = 4
"""Doubt about a call that was open across a gap in the stream."""
LOST = 8
"""Doubt about a call whose EXIT never came."""
PARTLY = 16
"""Doubt about a call during which one of its callees began to be left out at times: some of these calls count
as its own time, and some do not.
"""

# Kinds of loss; rows are either used or counted under one of the first six.
BAD_ORIGIN = 0
BAD_THREAD = 1
BAD_EVENT_TYPE = 2
BAD_TIMER = 3
EXIT_WITHOUT_ENTRY = 4
BAD_TIME = 5
LOST_EXIT = 6
TIME_REVERSED = 7
UNNAMED_TIMER = 8
MESSAGE_OUTSIDE_CALLS = 9
COUNTER_OUTSIDE_CALLS = 10
TOO_DEEP = 11
LOSS_KINDS = 12

MAX_THREAD_ID = 1 << 16
MAX_THREADS = 1 << 12
MAX_UNNAMED_TIMERS = 1 << 16
"""Maximum id of a timer without a name. Every table has a row for each timer up to the highest, so such an id
must not be absurd: 2^17 rows of the default detector's table are 330 MB.
"""
MAX_DEPTH = 1 << 12
"""Maximum depth of a stack at the end of a step. Of a deeper one, a recursion without end or calls whose
EXITs were lost and that pile up under one that does not end, the inner half is given up. An unmatched EXIT
looks through so many open calls.
"""

DONE = 0
NEED_THREADS = 1
NEED_TIMERS = 2

# Cells of the progress array, from which an interrupted run of a kernel is continued.
NEXT_ROW = 0
CALLS = 1
THREADS = 2
FIRST_US = 3
LAST_US = 4
PROGRESS_CELLS = 5


# Rows of a table, and not one array per column: half the time of the kernel was counting references to
# the columns, and one row that is looked up costs Python 1 µs instead of 0.1 µs per column.

CALL = np.dtype(
    [
        ("entry", np.uint64),
        ("exit", np.uint64),  # 0 while the call is open, and for ever where its EXIT was lost
        ("child_us", np.uint64),  # inclusive time of its completed direct children
        ("function", np.int32),  # the stream's own timer id
        ("parent", np.int32),  # row of the table, or -1
        ("depth", np.int32),
        ("children", np.int32),
        ("messages", np.int32),
        ("step", np.int32),  # step of its ENTRY
        ("row", np.int32),  # row of its ENTRY in the array of its step
        ("path", np.int32),  # its call path in the stream's table of paths; see ``ad.calls.callpaths``
        ("spent_us", np.int64),  # exclusive time that its path has been given
        ("thread", np.int16),  # number in order of appearance; THREAD has TAU's id
        ("doubts", np.uint8),  # any of FIRST, UNCERTAIN, UNKNOWN, LOST, PARTLY
        ("at_times_us", np.float32),  # time in callees that are left out at times; see ``ad.kernels.leftout``
    ],
    align=True,
)

THREAD = np.dtype(
    [
        ("id", np.int32),  # TAU's
        ("top", np.int32),  # innermost open call, as a row of the call table, or -1
        ("first_time", np.uint64),  # of its first event; 0 without one
        ("last_time", np.uint64),
        ("point", np.int32),  # first point that is not yet attached, or -1
        ("tie_call", np.int32),  # call that was entered or left first at the instant of the tie
        ("point_time", np.uint64),  # that point's time
        ("tie_time", np.uint64),  # the step's latest instant with both a call event and a point; 0 for none
        ("tie_mpi", np.int32),  # MPI call that contains that instant, or -1
        ("tie_entered", np.int32),  # the last MPI call that was entered at that instant, or -1
    ],
    align=True,
)

POINT = np.dtype([("time", np.uint64), ("next", np.int32), ("is_collective", np.uint8)], align=True)
"""A message or counter value, and the thread's next one, or -1.

Messages come first, with collective operations, then counter values, in the order of their arrays.
"""


@kernel
def new_thread(
    thread_id: np.uint64, numbers: npt.NDArray[np.int32], threads: Table, progress: npt.NDArray[np.int64]
) -> int:
    """Return the number of a new thread; the table's length where it is full, -1 where the id is absurd."""
    if thread_id >= np.uint64(MAX_THREAD_ID):
        return NONE
    count = progress[THREADS]
    if count == MAX_THREADS:
        return NONE
    if count == len(threads):
        return count
    numbers[thread_id] = count
    thread = threads[count]
    thread.id = thread_id
    thread.top = NONE
    thread.first_time = thread.last_time = 0
    thread.tie_time = 0
    thread.point = NONE
    thread.point_time = NEVER
    progress[THREADS] = count + 1
    return count


@kernel
def carry_open(
    calls: Table,
    threads: Table,
    progress: npt.NDArray[np.int64],
    losses: npt.NDArray[np.int64],
    doubts: int,
) -> int:
    """Move the open calls to the front of the table, in order, and give them ``doubts``; return their
    number.
    """
    kept = 0
    for number in range(progress[THREADS]):
        # Ties name rows of the table as it was.
        threads[number].tie_time = 0
        call = threads[number].top
        if call != NONE and calls[call].depth >= MAX_DEPTH:
            call = _give_up_inner_half(call, calls, losses)
            threads[number].top = call
        while call != NONE:
            kept += 1
            call = calls[call].parent
    is_open = np.empty(kept, np.int32)
    kept = 0
    for number in range(progress[THREADS]):
        call = threads[number].top
        while call != NONE:
            is_open[kept] = call
            kept += 1
            call = calls[call].parent
    sort(is_open)
    for to in range(kept):
        calls[to] = calls[is_open[to]]
        moved = calls[to]
        moved.exit = 0
        moved.doubts |= doubts
        if moved.parent != NONE:
            moved.parent = first_from(is_open, moved.parent)
    for number in range(progress[THREADS]):
        if threads[number].top != NONE:
            threads[number].top = first_from(is_open, threads[number].top)
    progress[CALLS] = kept
    return kept


@inner
def give_up(call: int, calls: Table) -> int:
    """Leave the time of a call whose EXIT was lost to its caller, but for what has its own place already:
    calls inside it, and what its path was given; return the caller.
    """
    parent = int(calls[call].parent)
    if parent != NONE:
        calls[parent].child_us += calls[call].child_us + np.uint64(calls[call].spent_us)
    return parent


@inner
def _give_up_inner_half(top: int, calls: Table, losses: npt.NDArray[np.int64]) -> int:
    """Give up the inner half of a stack that is too deep; return the innermost call of the rest, none of
    which is certain.
    """
    call = top
    while call != NONE:
        if calls[call].depth >= MAX_DEPTH // 2:
            losses[TOO_DEEP] += 1
            top = give_up(call, calls)
        calls[call].doubts |= UNCERTAIN
        call = calls[call].parent
    return top


OPEN = np.dtype(
    [
        ("entry_us", np.uint64),
        ("child_us", np.uint64),  # inclusive time of its completed direct children
        ("step", np.int32),  # with ``row`` the call's id
        ("row", np.int32),
        ("parent_step", np.int32),
        ("parent_row", np.int32),
        ("function", np.int32),  # the stream's own timer id
        ("thread", np.int32),  # TAU's id
        ("depth", np.int32),
        ("children", np.int32),
        ("messages", np.int32),
        ("doubts", np.uint8),
    ],
    align=True,
)
"""An open call, as its stream's process publishes it to the agent."""


@kernel
def gather_open(calls: Table, threads: Table, thread_count: int, room: Table) -> int:
    """Write the open calls into ``room``, ``OPEN`` rows: thread by thread, of each the outermost first;
    return their number.

    Where there is no room for all, each thread gets the same number of its innermost calls.
    """
    if thread_count == 0:
        return 0
    most = max(len(room) // thread_count, 1)
    count = 0
    for number in range(thread_count):
        depth = 0
        call = threads[number].top
        while call != NONE and depth < most:
            depth += 1
            call = calls[call].parent
        depth = min(depth, len(room) - count)
        call = threads[number].top
        for at in range(count + depth - 1, count - 1, -1):
            parent = calls[call].parent
            room[at].entry_us = calls[call].entry
            room[at].child_us = calls[call].child_us
            room[at].step = calls[call].step
            room[at].row = calls[call].row
            room[at].parent_step = calls[parent].step if parent != NONE else NONE
            room[at].parent_row = calls[parent].row if parent != NONE else NONE
            room[at].function = calls[call].function
            room[at].thread = threads[number].id
            room[at].depth = calls[call].depth
            room[at].children = calls[call].children
            room[at].messages = calls[call].messages
            room[at].doubts = calls[call].doubts
            call = parent
        count += depth
    return count
