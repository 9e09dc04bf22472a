"""Rebuilding call stacks from ENTRY and EXIT rows, compiled.

One table holds the calls of a step: first the calls carried over because they are still open,
then one row per ENTRY, in order of appearance. Parents stand before their children, so a
thread's stack is the chain of parents that begins at its innermost open call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from chimbuko.trace.schema import MAX_TIME_US

NONE = -1
NEVER = (1 << 64) - 1

# Flags of a call: any of them keeps it out of statistics and flags.
FIRST = 1
"""First call of its function on its thread: pays for loading, compiling, caching."""
UNCERTAIN = 2
"""Its interval or its children are not trustworthy (rows lost below it, time running backwards)."""
UNKNOWN = 4
"""Open across a gap in the stream."""
LOST = 8
"""Its EXIT never came."""

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
LOSS_KINDS = 11

MAX_THREAD_ID = 1 << 16
MAX_THREADS = 1 << 12
MAX_TIMERS = 1 << 20
MAX_UNNAMED_TIMERS = 1 << 16
"""Every table has a row for each timer up to the highest, so an id without a name must not be absurd:
2^20 rows would cost each step 0.05 s and the process 300 MB."""
MAX_UNWIND = 1 << 10
"""How many open calls an unmatched EXIT may look through: bounds the work per damaged row."""

DONE = 0
NEED_THREADS = 1
NEED_TIMERS = 2

# Cells of the progress array, with which an interrupted run of the kernel is taken up again.
NEXT_ROW = 0
CALLS = 1
THREADS = 2
PROGRESS_CELLS = 3


# Rows of a table, and not one array per column: half the time of the kernel was counting references to
# the columns, and one row that is looked up costs Python 1 µs instead of 0.1 µs per column.
Table = np.recarray[Any, Any]

CALL = np.dtype(
    [
        ("entry", np.uint64),
        ("exit", np.uint64),  # 0 while the call is open, and for ever where its EXIT was lost
        ("child_us", np.uint64),  # inclusive time of its completed direct children
        ("function", np.int32),  # the stream's own timer id
        ("thread", np.int32),  # number in order of appearance; THREAD has TAU's id
        ("parent", np.int32),  # row of the table, or -1
        ("depth", np.int32),
        ("children", np.int32),
        ("messages", np.int32),
        ("step", np.int32),  # step of its ENTRY
        ("row", np.int32),  # row of its ENTRY in the array of its step
        ("doubts", np.uint8),  # any of FIRST, UNCERTAIN, UNKNOWN, LOST
    ],
    align=True,
)

THREAD = np.dtype(
    [
        ("id", np.int32),  # TAU's
        ("top", np.int32),  # innermost open call, as a row of the call table, or -1
        ("last_time", np.uint64),
        ("tie_time", np.uint64),  # the step's latest instant with both a call event and a point; 0 for none
        ("tie_mpi", np.int32),  # MPI call that contains that instant, or -1
        ("tie_call", np.int32),  # call that was entered or left first at that instant
        ("message", np.int32),  # first message that is not yet attached, or -1
        ("value", np.int32),  # first counter value that is not yet attached, or -1
        ("point_time", np.uint64),  # the earlier one's time
    ],
    align=True,
)

POINT = np.dtype([("next", np.int32), ("call", np.int32)], align=True)
"""A message or counter value: the thread's next one, and the call it is attached to, or -1."""


@njit(cache=True, nogil=True)
def chain_points(
    rows: npt.NDArray[np.uint64],
    rank: np.uint64,
    time_column: int,
    are_messages: bool,
    points: Table,
    numbers: npt.NDArray[np.int32],
    threads: Table,
    progress: npt.NDArray[np.int64],
    losses: npt.NDArray[np.int64],
) -> int:
    """Chain ``rows`` u8[n, columns], sorted by time, per thread. Returns ``DONE`` or ``NEED_THREADS``.

    A point has nothing but its time to find its call by, so one without a possible time is lost.

    With more threads it begins anew, so losses are counted only at the end.
    """
    for known in range(progress[THREADS]):
        _set_head(threads[known], are_messages, NONE)
    bad_origin = 0
    bad_thread = 0
    bad_time = 0
    thread_id = np.uint64(NEVER)
    number = NONE
    for i in range(len(rows) - 1, -1, -1):
        point = points[i]
        point.call = NONE
        point.next = NONE
        if rows[i, 0] != 0 or rows[i, 1] != rank:
            bad_origin += 1
            continue
        if is_absurd(rows[i, time_column]):
            bad_time += 1
            continue
        if rows[i, 2] != thread_id:
            thread_id = rows[i, 2]
            number = _thread_number(thread_id, numbers, threads, progress)
        if number == NONE:
            bad_thread += 1
            continue
        if number == len(threads):
            return NEED_THREADS
        thread = threads[number]
        point.next = thread.message if are_messages else thread.value
        _set_head(thread, are_messages, i)
    losses[BAD_ORIGIN] += bad_origin
    losses[BAD_THREAD] += bad_thread
    losses[BAD_TIME] += bad_time
    return DONE


@njit(cache=True, nogil=True, inline="always")
def _set_head(thread: Any, are_messages: bool, point: int) -> None:
    if are_messages:
        thread.message = point
    else:
        thread.value = point


@njit(cache=True, nogil=True)
def is_absurd(time: np.uint64) -> bool:
    """Whether a time cannot be one: 0, or later than the year 2255."""
    return bool(time == 0 or time >= np.uint64(MAX_TIME_US))


@njit(cache=True, nogil=True)
def _thread_number(
    thread_id: np.uint64, numbers: npt.NDArray[np.int32], threads: Table, progress: npt.NDArray[np.int64]
) -> int:
    """Number of a thread, new if need be; the table's length where it is full, -1 where the id is absurd."""
    if thread_id >= np.uint64(MAX_THREAD_ID):
        return NONE
    number = numbers[thread_id]
    if number != NONE:
        return number
    count = progress[THREADS]
    if count == MAX_THREADS:
        return NONE
    if count == len(threads):
        return count
    numbers[thread_id] = count
    thread = threads[count]
    thread.id = thread_id
    thread.top = NONE
    thread.last_time = 0
    thread.tie_time = 0
    thread.message = NONE
    thread.value = NONE
    thread.point_time = NEVER
    progress[THREADS] = count + 1
    return count


@njit(cache=True, nogil=True, inline="always")
def attach_until(
    time: np.uint64,
    thread: Any,
    are_messages: bool,
    points: Table,
    rows: npt.NDArray[np.uint64],
    time_column: int,
    calls: Table,
) -> int:
    """Attach the points of a thread that are older than ``time``; returns how many lie outside of calls."""
    outside = 0
    at = thread.message if are_messages else thread.value
    while at != NONE and rows[at, time_column] < time:
        call = thread.top
        if rows[at, time_column] == thread.tie_time:
            call = thread.tie_call
            if are_messages and thread.tie_mpi != NONE:
                call = thread.tie_mpi
        points[at].call = call
        if call == NONE:
            outside += 1
        elif are_messages:
            calls[call].messages += 1
        at = points[at].next
    _set_head(thread, are_messages, at)
    return outside


@njit(cache=True, nogil=True)
def build_calls(
    events: npt.NDArray[np.uint64],
    comms: npt.NDArray[np.uint64],
    counters: npt.NDArray[np.uint64],
    step: int,
    rank: np.uint64,
    entry_type: np.uint64,
    exit_type: np.uint64,
    calls: Table,
    numbers: npt.NDArray[np.int32],
    threads: Table,
    messages: Table,
    values: Table,
    seen: npt.NDArray[np.uint8],
    is_mpi: npt.NDArray[np.uint8],
    is_named: npt.NDArray[np.uint8],
    progress: npt.NDArray[np.int64],
    losses: npt.NDArray[np.int64],
) -> int:
    """Rebuild the calls of one step and attach its messages and counter values to them.

    Parameters
    ----------
    events, comms, counters
        u8[n, 6], u8[m, 8], u8[p, 6] in TAU's layout.
    calls
        CALL[...]: room for the carried calls, which stand first, and one call per event.
    numbers
        i4[MAX_THREAD_ID]: TAU's thread id to the thread's number, -1 for one not seen.
    threads
        THREAD[...].
    messages, values
        POINT[m], POINT[p], chained.
    seen
        u1[threads, timers]: whether the function was entered on the thread before.
    is_mpi, is_named
        u1[timers].
    progress
        i8[PROGRESS_CELLS]; with ``NEED_THREADS`` or ``NEED_TIMERS`` as answer the caller enlarges
        the tables and calls again.
    losses
        i8[LOSS_KINDS], added to.
    """
    count = progress[CALLS]
    timers = np.uint64(len(is_named))
    for number in range(progress[THREADS]):
        _note_point_time(threads[number], comms, counters)
    # The common cases stand here and not in functions: numba counts references, 5 ns each, to every
    # array that is handed to a function which is not inlined.
    thread_id = np.uint64(NEVER)
    number = NONE
    for i in range(progress[NEXT_ROW], len(events)):
        if events[i, 0] != 0 or events[i, 1] != rank:
            losses[BAD_ORIGIN] += 1
            continue
        event_type = events[i, 3]
        if event_type != entry_type and event_type != exit_type:
            losses[BAD_EVENT_TYPE] += 1
            continue
        if events[i, 2] != thread_id:
            thread_id = events[i, 2]
            number = _thread_number(thread_id, numbers, threads, progress)
        if number == NONE:
            losses[BAD_THREAD] += 1
            continue
        if number == len(threads):
            progress[NEXT_ROW] = i
            progress[CALLS] = count
            return NEED_THREADS
        thread = threads[number]
        top = thread.top
        timer = events[i, 4]
        is_known = timer < timers and is_named[timer] != 0
        if timer >= np.uint64(MAX_UNNAMED_TIMERS) and not is_known:
            losses[BAD_TIMER] += 1
            if top != NONE:
                calls[top].doubts |= UNCERTAIN
            continue
        if timer >= timers:
            progress[NEXT_ROW] = i
            progress[CALLS] = count
            return NEED_TIMERS
        function = np.int32(timer)
        time = events[i, 5]
        # A row is suspect when time runs backwards before it, and also just after it: one absurd
        # timestamp must not enter the statistics only because the others disagree with it.
        suspect = False
        if is_absurd(time):
            # The row still says where a call begins or ends in the order of its thread.
            losses[TIME_REVERSED] += 1
            suspect = True
            time = max(thread.last_time, np.uint64(1))
        elif time < thread.last_time:
            losses[TIME_REVERSED] += 1
            suspect = True
        elif i + 1 < len(events):
            suspect = events[i + 1, 5] < time and events[i + 1, 2] == events[i, 2]
        thread.last_time = time
        if is_named[timer] == 0:
            losses[UNNAMED_TIMER] += 1
        is_tied = False
        if time >= thread.point_time:
            is_tied = _meet_points(
                time, thread, event_type == exit_type, messages, comms, values, counters,
                calls, is_mpi, losses,
            )  # fmt: skip
        if event_type == entry_type:
            call = calls[count]
            call.entry = time
            call.exit = 0
            call.child_us = 0
            call.function = function
            call.thread = number
            call.parent = top
            call.depth = calls[top].depth + 1 if top != NONE else 0
            call.children = 0
            call.messages = 0
            call.step = step
            call.row = i
            doubts = UNCERTAIN if suspect else 0
            if seen[number, timer] == 0:
                seen[number, timer] = 1
                doubts |= FIRST
            call.doubts = doubts
            thread.top = count
            count += 1
        else:
            ended = top
            if top == NONE or calls[top].function != function:
                ended = _matching_call(top, function, calls, losses)
            if ended == NONE:
                losses[EXIT_WITHOUT_ENTRY] += 1
                if top != NONE:
                    # A call inside it was not seen: its exclusive time is not its own.
                    calls[top].doubts |= UNCERTAIN
                continue
            call = calls[ended]
            suspect = _complete(call, time, suspect)
            thread.top = call.parent
            if call.parent != NONE:
                parent = calls[call.parent]
                parent.child_us += call.exit - call.entry
                parent.children += 1
                if suspect:
                    parent.doubts |= UNCERTAIN
        if is_tied:
            _note_tie(thread, calls, is_mpi)
    progress[NEXT_ROW] = len(events)
    progress[CALLS] = count
    for number in range(progress[THREADS]):
        _attach_both(
            np.uint64(MAX_TIME_US), threads[number], messages, comms, values, counters, calls, losses
        )
    return DONE


@njit(cache=True, nogil=True, inline="always")
def _note_point_time(thread: Any, comms: npt.NDArray[np.uint64], counters: npt.NDArray[np.uint64]) -> None:
    message_time = comms[thread.message, 7] if thread.message != NONE else np.uint64(NEVER)
    value_time = counters[thread.value, 5] if thread.value != NONE else np.uint64(NEVER)
    thread.point_time = min(message_time, value_time)


@njit(cache=True, nogil=True, inline="always")
def _attach_both(
    time: np.uint64,
    thread: Any,
    messages: Table,
    comms: npt.NDArray[np.uint64],
    values: Table,
    counters: npt.NDArray[np.uint64],
    calls: Table,
    losses: npt.NDArray[np.int64],
) -> None:
    losses[MESSAGE_OUTSIDE_CALLS] += attach_until(time, thread, True, messages, comms, 7, calls)
    losses[COUNTER_OUTSIDE_CALLS] += attach_until(time, thread, False, values, counters, 5, calls)
    _note_point_time(thread, comms, counters)


@njit(cache=True, nogil=True, inline="always")
def _meet_points(
    time: np.uint64,
    thread: Any,
    is_exit: bool,
    messages: Table,
    comms: npt.NDArray[np.uint64],
    values: Table,
    counters: npt.NDArray[np.uint64],
    calls: Table,
    is_mpi: npt.NDArray[np.uint8],
    losses: npt.NDArray[np.int64],
) -> bool:
    """Attach what is older than ``time``; True where a point stands at exactly ``time``.

    Such a point lies in the closed interval of several calls. It belongs to the call that is entered
    or left first at that instant, but a message to an MPI call among them, if there is one.
    """
    _attach_both(time, thread, messages, comms, values, counters, calls, losses)
    is_tied = thread.point_time == time
    if is_tied and thread.tie_time != time:
        top = thread.top
        thread.tie_time = time
        thread.tie_call = top if is_exit else NONE
        thread.tie_mpi = top if top != NONE and is_mpi[calls[top].function] != 0 else NONE
    return is_tied


@njit(cache=True, nogil=True)
def _note_tie(thread: Any, calls: Table, is_mpi: npt.NDArray[np.uint8]) -> None:
    """After a row at the instant of a point: the innermost call may be the one that the point belongs to."""
    top = thread.top
    if thread.tie_call == NONE:
        thread.tie_call = top
    if thread.tie_mpi == NONE and top != NONE and is_mpi[calls[top].function] != 0:
        thread.tie_mpi = top


@njit(cache=True, nogil=True)
def _matching_call(top: int, function: np.int32, calls: Table, losses: npt.NDArray[np.int64]) -> int:
    """The open call that an EXIT of ``function`` ends, or -1.

    Where it is not the innermost one, the EXITs of those inside it were lost: they are given up,
    so that one lost EXIT does not wedge all enclosing calls.
    """
    if top != NONE and calls[top].function == function:
        return top
    call = top
    looked = 0
    while call != NONE and calls[call].function != function and looked < MAX_UNWIND:
        call = calls[call].parent
        looked += 1
    if call == NONE or calls[call].function != function:
        return NONE
    while top != call:
        calls[top].doubts |= LOST
        losses[LOST_EXIT] += 1
        top = calls[top].parent
    calls[call].doubts |= UNCERTAIN
    return call


@njit(cache=True, nogil=True)
def _complete(call: Any, time: np.uint64, suspect: bool) -> bool:
    """End ``call`` at ``time``; returns whether it is suspect."""
    if time < call.entry:
        time = call.entry
        suspect = True
    call.exit = time
    inclusive = time - call.entry
    if call.child_us > inclusive:
        call.child_us = inclusive
        suspect = True
    if suspect:
        call.doubts |= UNCERTAIN
    return suspect


@njit(cache=True, nogil=True)
def carry_open(calls: Table, threads: Table, progress: npt.NDArray[np.int64], doubts: int) -> int:
    """Move the open calls to the front of the table, in order, and give them ``doubts``; returns how many."""
    kept = 0
    for number in range(progress[THREADS]):
        # Ties name rows of the table as it was.
        threads[number].tie_time = 0
        call = threads[number].top
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
    is_open.sort()
    for to in range(kept):
        calls[to] = calls[is_open[to]]
        moved = calls[to]
        moved.exit = 0
        moved.doubts |= doubts
        if moved.parent != NONE:
            moved.parent = np.searchsorted(is_open, moved.parent)
    for number in range(progress[THREADS]):
        if threads[number].top != NONE:
            threads[number].top = np.searchsorted(is_open, threads[number].top)
    progress[CALLS] = kept
    return kept
