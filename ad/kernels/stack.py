"""Rebuilding call stacks from ENTRY and EXIT rows, compiled.

One table holds the calls of a step: first the calls carried over because they are still open,
then one row per ENTRY, in order of appearance. Parents stand before their children, so a
thread's stack is the chain of parents that begins at its innermost open call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from chimbuko.trace.schema import MAX_TIME_US

NONE = -1

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


class CallTable(NamedTuple):
    """Calls of one step as a structure of arrays, all of the same capacity."""

    function: npt.NDArray[np.int32]
    """The stream's own timer id."""
    thread: npt.NDArray[np.int32]
    """Number of the thread in order of appearance; ``ThreadTable.id`` has TAU's id."""
    entry: npt.NDArray[np.uint64]
    exit: npt.NDArray[np.uint64]
    """0 while the call is open, and for ever where its EXIT was lost."""
    child_us: npt.NDArray[np.uint64]
    """Inclusive time of its completed direct children."""
    parent: npt.NDArray[np.int32]
    depth: npt.NDArray[np.int32]
    children: npt.NDArray[np.int32]
    messages: npt.NDArray[np.int32]
    row: npt.NDArray[np.int32]
    """Row of its ENTRY in the array of its step."""
    step: npt.NDArray[np.int32]
    """Step of its ENTRY."""
    flags: npt.NDArray[np.uint8]


class ThreadTable(NamedTuple):
    """State of each thread of a stream."""

    number: npt.NDArray[np.int32]
    """i4[MAX_THREAD_ID]: TAU's thread id to the thread's number, -1 for one not seen."""
    id: npt.NDArray[np.int32]
    top: npt.NDArray[np.int32]
    """Innermost open call, as a row of the call table, or -1."""
    last_time: npt.NDArray[np.uint64]
    tie_time: npt.NDArray[np.uint64]
    """Time of the step's latest instant at which both a call event and a point stood; 0 for none."""
    tie_mpi: npt.NDArray[np.int32]
    """MPI call that contains that instant, or -1."""
    tie_call: npt.NDArray[np.int32]
    """Call that was entered or left first at that instant."""


class Points(NamedTuple):
    """Messages or counter values of a step, chained per thread in order of time."""

    head: npt.NDArray[np.int32]
    """i4[threads]: first point of the thread that is not yet attached, or -1."""
    next: npt.NDArray[np.int32]
    """i4[rows]: the thread's next point, or -1."""
    call: npt.NDArray[np.int32]
    """i4[rows]: the call it is attached to, as a row of the call table, or -1."""


@njit(cache=True, nogil=True)
def chain_points(
    rows: npt.NDArray[np.uint64],
    rank: np.uint64,
    time_column: int,
    points: Points,
    threads: ThreadTable,
    progress: npt.NDArray[np.int64],
    losses: npt.NDArray[np.int64],
) -> int:
    """Chain ``rows`` u8[n, columns], sorted by time, per thread. Returns ``DONE`` or ``NEED_THREADS``.

    A point has nothing but its time to find its call by, so one without a possible time is lost.

    With more threads it begins anew, so losses are counted only at the end.
    """
    points.head[:] = NONE
    bad_origin = 0
    bad_thread = 0
    bad_time = 0
    for i in range(len(rows) - 1, -1, -1):
        points.call[i] = NONE
        points.next[i] = NONE
        row = rows[i]
        if row[0] != 0 or row[1] != rank:
            bad_origin += 1
            continue
        if is_absurd(row[time_column]):
            bad_time += 1
            continue
        number = _thread_number(row[2], threads, progress)
        if number == NONE:
            bad_thread += 1
            continue
        if number == len(threads.id):
            return NEED_THREADS
        points.next[i] = points.head[number]
        points.head[number] = i
    losses[BAD_ORIGIN] += bad_origin
    losses[BAD_THREAD] += bad_thread
    losses[BAD_TIME] += bad_time
    return DONE


@njit(cache=True, nogil=True, inline="always")
def is_absurd(time: np.uint64) -> bool:
    """Whether a time cannot be one: 0, or later than the year 2255."""
    return bool(time == 0 or time >= np.uint64(MAX_TIME_US))


@njit(cache=True, nogil=True, inline="always")
def _thread_number(thread_id: np.uint64, threads: ThreadTable, progress: npt.NDArray[np.int64]) -> int:
    """Number of a thread, new if need be; the table's length where it is full, -1 where the id is absurd."""
    if thread_id >= np.uint64(MAX_THREAD_ID):
        return NONE
    number = threads.number[thread_id]
    if number != NONE:
        return number
    count = progress[THREADS]
    if count == MAX_THREADS:
        return NONE
    if count == len(threads.id):
        return count
    threads.number[thread_id] = count
    threads.id[count] = thread_id
    threads.top[count] = NONE
    threads.last_time[count] = 0
    threads.tie_time[count] = 0
    progress[THREADS] = count + 1
    return count


@njit(cache=True, nogil=True)
def attach_until(
    time: np.uint64,
    number: int,
    points: Points,
    rows: npt.NDArray[np.uint64],
    time_column: int,
    prefer_mpi: bool,
    calls: CallTable,
    threads: ThreadTable,
) -> int:
    """Attach the points of a thread that are older than ``time``; returns how many lie outside of calls."""
    outside = 0
    at = points.head[number]
    while at != NONE and rows[at, time_column] < time:
        call = threads.top[number]
        if rows[at, time_column] == threads.tie_time[number]:
            call = threads.tie_call[number]
            if prefer_mpi and threads.tie_mpi[number] != NONE:
                call = threads.tie_mpi[number]
        points.call[at] = call
        if call == NONE:
            outside += 1
        elif prefer_mpi:
            calls.messages[call] += 1
        at = points.next[at]
    points.head[number] = at
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
    calls: CallTable,
    threads: ThreadTable,
    messages: Points,
    values: Points,
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
        Room for the carried calls, which stand first, and one call per event.
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
    has_points = len(comms) > 0 or len(counters) > 0
    for i in range(progress[NEXT_ROW], len(events)):
        row = events[i]
        if row[0] != 0 or row[1] != rank:
            losses[BAD_ORIGIN] += 1
            continue
        event_type = row[3]
        if event_type != entry_type and event_type != exit_type:
            losses[BAD_EVENT_TYPE] += 1
            continue
        number = _thread_number(row[2], threads, progress)
        if number == NONE:
            losses[BAD_THREAD] += 1
            continue
        if number == len(threads.id):
            progress[NEXT_ROW] = i
            progress[CALLS] = count
            return NEED_THREADS
        top = threads.top[number]
        timer = row[4]
        is_known = timer < timers and is_named[timer] != 0
        if timer >= np.uint64(MAX_UNNAMED_TIMERS) and not is_known:
            losses[BAD_TIMER] += 1
            if top != NONE:
                calls.flags[top] |= UNCERTAIN
            continue
        if timer >= timers:
            progress[NEXT_ROW] = i
            progress[CALLS] = count
            return NEED_TIMERS
        function = np.int32(timer)
        time = row[5]
        # A row is suspect when time runs backwards before it, and also just after it: one absurd
        # timestamp must not enter the statistics only because the others disagree with it.
        suspect = False
        if is_absurd(time):
            # The row still says where a call begins or ends in the order of its thread.
            losses[TIME_REVERSED] += 1
            suspect = True
            time = max(threads.last_time[number], np.uint64(1))
        elif time < threads.last_time[number]:
            losses[TIME_REVERSED] += 1
            suspect = True
        elif i + 1 < len(events):
            suspect = events[i + 1, 5] < time and events[i + 1, 2] == row[2]
        threads.last_time[number] = time
        if is_named[function] == 0:
            losses[UNNAMED_TIMER] += 1
        is_tied = False
        if has_points:
            is_tied = _meet_points(
                time, number, top, event_type == exit_type, messages, comms, values, counters,
                calls, threads, is_mpi, losses,
            )  # fmt: skip
        if event_type == entry_type:
            calls.function[count] = function
            calls.thread[count] = number
            calls.entry[count] = time
            calls.exit[count] = 0
            calls.child_us[count] = 0
            calls.parent[count] = top
            calls.depth[count] = calls.depth[top] + 1 if top != NONE else 0
            calls.children[count] = 0
            calls.messages[count] = 0
            calls.row[count] = i
            calls.step[count] = step
            flags = UNCERTAIN if suspect else 0
            if seen[number, function] == 0:
                seen[number, function] = 1
                flags |= FIRST
            calls.flags[count] = flags
            threads.top[number] = count
            count += 1
        else:
            call = _matching_call(top, function, calls, losses)
            if call == NONE:
                losses[EXIT_WITHOUT_ENTRY] += 1
                if top != NONE:
                    # A call inside it was not seen: its exclusive time is not its own.
                    calls.flags[top] |= UNCERTAIN
                continue
            _complete(call, time, suspect, calls)
            threads.top[number] = calls.parent[call]
        if is_tied:
            now = threads.top[number]
            if threads.tie_call[number] == NONE:
                threads.tie_call[number] = now
            if threads.tie_mpi[number] == NONE and now != NONE and is_mpi[calls.function[now]] != 0:
                threads.tie_mpi[number] = now
    progress[NEXT_ROW] = len(events)
    progress[CALLS] = count
    if has_points:
        for number in range(progress[THREADS]):
            end = np.uint64(MAX_TIME_US)
            losses[MESSAGE_OUTSIDE_CALLS] += attach_until(
                end, number, messages, comms, 7, True, calls, threads
            )
            losses[COUNTER_OUTSIDE_CALLS] += attach_until(
                end, number, values, counters, 5, False, calls, threads
            )
    return DONE


@njit(cache=True, nogil=True, inline="always")
def _meet_points(
    time: np.uint64,
    number: int,
    top: int,
    is_exit: bool,
    messages: Points,
    comms: npt.NDArray[np.uint64],
    values: Points,
    counters: npt.NDArray[np.uint64],
    calls: CallTable,
    threads: ThreadTable,
    is_mpi: npt.NDArray[np.uint8],
    losses: npt.NDArray[np.int64],
) -> bool:
    """Attach what is older than ``time``; True where a point stands at exactly ``time``.

    Such a point lies in the closed interval of several calls. It belongs to the call that is entered
    or left first at that instant, but a message to an MPI call among them, if there is one.
    """
    message = messages.head[number]
    value = values.head[number]
    if message != NONE and comms[message, 7] < time:
        losses[MESSAGE_OUTSIDE_CALLS] += attach_until(time, number, messages, comms, 7, True, calls, threads)
        message = messages.head[number]
    if value != NONE and counters[value, 5] < time:
        losses[COUNTER_OUTSIDE_CALLS] += attach_until(
            time, number, values, counters, 5, False, calls, threads
        )
        value = values.head[number]
    is_tied = (message != NONE and comms[message, 7] == time) or (
        value != NONE and counters[value, 5] == time
    )
    if is_tied and threads.tie_time[number] != time:
        threads.tie_time[number] = time
        threads.tie_call[number] = top if is_exit else NONE
        threads.tie_mpi[number] = top if top != NONE and is_mpi[calls.function[top]] != 0 else NONE
    return is_tied


@njit(cache=True, nogil=True, inline="always")
def _matching_call(top: int, function: np.int32, calls: CallTable, losses: npt.NDArray[np.int64]) -> int:
    """The open call that an EXIT of ``function`` ends, or -1.

    Where it is not the innermost one, the EXITs of those inside it were lost: they are given up,
    so that one lost EXIT does not wedge all enclosing calls.
    """
    if top != NONE and calls.function[top] == function:
        return top
    call = top
    looked = 0
    while call != NONE and calls.function[call] != function and looked < MAX_UNWIND:
        call = calls.parent[call]
        looked += 1
    if call == NONE or calls.function[call] != function:
        return NONE
    while top != call:
        calls.flags[top] |= LOST
        losses[LOST_EXIT] += 1
        top = calls.parent[top]
    calls.flags[call] |= UNCERTAIN
    return call


@njit(cache=True, nogil=True, inline="always")
def _complete(call: int, time: np.uint64, suspect: bool, calls: CallTable) -> None:
    """End ``call`` at ``time`` and credit its time to its parent."""
    entry = calls.entry[call]
    if time < entry:
        time = entry
        suspect = True
    calls.exit[call] = time
    inclusive = time - entry
    if calls.child_us[call] > inclusive:
        calls.child_us[call] = inclusive
        suspect = True
    parent = calls.parent[call]
    if suspect:
        calls.flags[call] |= UNCERTAIN
    if parent != NONE:
        calls.child_us[parent] += inclusive
        calls.children[parent] += 1
        if suspect:
            calls.flags[parent] |= UNCERTAIN


@njit(cache=True, nogil=True)
def carry_open(calls: CallTable, threads: ThreadTable, progress: npt.NDArray[np.int64], flags: int) -> int:
    """Move the open calls to the front of the table, in order, and give them ``flags``; returns how many."""
    kept = 0
    # Ties name rows of the table as it was.
    threads.tie_time[:] = 0
    for number in range(progress[THREADS]):
        call = threads.top[number]
        while call != NONE:
            kept += 1
            call = calls.parent[call]
    is_open = np.empty(kept, np.int32)
    kept = 0
    for number in range(progress[THREADS]):
        call = threads.top[number]
        while call != NONE:
            is_open[kept] = call
            kept += 1
            call = calls.parent[call]
    is_open.sort()
    for to in range(kept):
        call = is_open[to]
        parent = calls.parent[call]
        calls.function[to] = calls.function[call]
        calls.thread[to] = calls.thread[call]
        calls.entry[to] = calls.entry[call]
        calls.exit[to] = 0
        calls.child_us[to] = calls.child_us[call]
        calls.parent[to] = np.searchsorted(is_open, parent) if parent != NONE else NONE
        calls.depth[to] = calls.depth[call]
        calls.children[to] = calls.children[call]
        calls.messages[to] = calls.messages[call]
        calls.row[to] = calls.row[call]
        calls.step[to] = calls.step[call]
        calls.flags[to] = calls.flags[call] | flags
    for number in range(progress[THREADS]):
        if threads.top[number] != NONE:
            threads.top[number] = np.searchsorted(is_open, threads.top[number])
    progress[CALLS] = kept
    return kept
