"""Rebuilding the calls of a step from ENTRY and EXIT rows, compiled; wrapped by ``ad.calls.stacks``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.points import attach_until, is_absurd
from chimbuko.ad.kernels.stack import (
    BAD_EVENT_TYPE,
    BAD_ORIGIN,
    BAD_THREAD,
    BAD_TIMER,
    CALLS,
    DONE,
    EXIT_WITHOUT_ENTRY,
    FIRST,
    FIRST_US,
    LAST_US,
    LOST,
    LOST_EXIT,
    MAX_DEPTH,
    MAX_THREAD_ID,
    MAX_UNNAMED_TIMERS,
    NEED_THREADS,
    NEED_TIMERS,
    NEVER,
    NEXT_ROW,
    NONE,
    THREADS,
    TIME_REVERSED,
    UNCERTAIN,
    UNNAMED_TIMER,
    give_up,
    new_thread,
)
from chimbuko.core.arrays import Table
from chimbuko.core.kernels.declare import inner, kernel
from chimbuko.core.traceschema import (
    EVENT_PROGRAM,
    EVENT_RANK,
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TIMER,
    EVENT_TYPE,
    MAX_TIME_US,
)

# Kinds of event types.
OTHER = 0
ENTRY = 1
EXIT = 2


@kernel
def build_calls(
    events: npt.NDArray[np.uint64],
    messages: int,
    step: int,
    rank: np.uint64,
    kinds: npt.NDArray[np.uint8],
    calls: Table,
    numbers: npt.NDArray[np.int32],
    threads: Table,
    points: Table,
    attached: npt.NDArray[np.int32],
    seen: npt.NDArray[np.uint8],
    is_mpi: npt.NDArray[np.uint8],
    is_named: npt.NDArray[np.uint8],
    progress: npt.NDArray[np.int64],
    losses: npt.NDArray[np.int64],
) -> int:
    """Rebuild the calls of one step and attach its messages and counter values to them.

    Parameters
    ----------
    events
        uint64[n, 6] in TAU's layout.
    messages
        Number of ``points`` that are messages.
    kinds
        Kind of each event type, uint8[types]; types from the last one on are ``OTHER``.
    calls
        ``CALL`` rows: room for the carried calls, which stand first, for one call per event, and for one
        more.
    numbers
        Thread number of each of TAU's thread ids, -1 for one not seen and for the last; int32[MAX_THREAD_ID +
        1].
    threads
        ``THREAD`` rows.
    points
        ``POINT`` rows, chained.
    attached
        Receives the call that each point is attached to, -1 for none; int32[points].
    seen
        Whether the function was entered on the thread before, uint8[threads, timers].
    is_mpi, is_named
        Whether each function is one of MPI, and has a name; uint8[timers].
    progress
        int64[PROGRESS_CELLS]; with ``NEED_THREADS`` or ``NEED_TIMERS`` as result the caller enlarges the
        tables and calls again.
    losses
        Losses by kind, added to; int64[LOSS_KINDS].
    """
    count = progress[CALLS]
    timers = np.uint64(len(is_named))
    last_type = np.uint64(len(kinds) - 1)
    # The state of the current thread: while rows come from one thread, nothing of it is looked up.
    thread_id = np.uint64(NEVER)
    number = NONE
    top = NONE
    depth = NONE
    last_time = np.uint64(0)
    point_time = np.uint64(NEVER)
    first_us = np.uint64(progress[FIRST_US])
    last_us = np.uint64(progress[LAST_US])
    for row in range(progress[NEXT_ROW], len(events)):
        # Indices without a sign need no check for those that count from the end.
        i = np.uint64(row)
        if (events[i, EVENT_PROGRAM] | (events[i, EVENT_RANK] ^ rank)) != 0:
            losses[BAD_ORIGIN] += 1
            continue
        kind = kinds[min(events[i, EVENT_TYPE], last_type)]
        if kind == OTHER:
            losses[BAD_EVENT_TYPE] += 1
            continue
        if events[i, EVENT_THREAD] != thread_id:
            if number != NONE:
                _leave_thread(threads[number], top, last_time)
            thread_id = events[i, EVENT_THREAD]
            number = numbers[min(thread_id, np.uint64(MAX_THREAD_ID))]
            if number == NONE:
                number = new_thread(thread_id, numbers, threads, progress)
            if number == len(threads):
                _pause(row, count, first_us, last_us, progress)
                return NEED_THREADS
            if number != NONE:
                thread = threads[np.uint64(number)]
                if thread.first_time == 0 and not is_absurd(events[i, EVENT_TIME]):
                    thread.first_time = events[i, EVENT_TIME]
                top = thread.top
                depth = calls[np.uint64(top)].depth if top != NONE else NONE
                last_time = thread.last_time
                point_time = thread.point_time
        if number == NONE:
            losses[BAD_THREAD] += 1
            continue
        timer = events[i, EVENT_TIMER]
        if timer >= timers or is_named[timer] == 0:
            if timer >= np.uint64(MAX_UNNAMED_TIMERS):
                losses[BAD_TIMER] += 1
                if top != NONE:
                    calls[top].doubts |= UNCERTAIN
                continue
            if timer >= timers:
                _leave_thread(threads[number], top, last_time)
                _pause(row, count, first_us, last_us, progress)
                return NEED_TIMERS
            losses[UNNAMED_TIMER] += 1
        time = events[i, EVENT_TIME]
        # A row is suspect when time runs backwards before it, and also just after it: one absurd
        # timestamp must not enter the statistics only because the others disagree with it.
        suspect = 0
        if is_absurd(time):
            # The row still says where a call begins or ends in the order of its thread.
            losses[TIME_REVERSED] += 1
            suspect = UNCERTAIN
            time = max(last_time, np.uint64(1))
        else:
            first_us = min(first_us, time)
            last_us = max(last_us, time)
            if time < last_time:
                losses[TIME_REVERSED] += 1
                suspect = UNCERTAIN
            elif row + 1 < len(events):
                following = np.uint64(row + 1)
                if events[following, EVENT_TIME] < time and events[following, EVENT_THREAD] == thread_id:
                    suspect = UNCERTAIN
        last_time = time
        is_exit = kind == EXIT
        is_tied = False
        if time >= point_time:
            thread = threads[np.uint64(number)]
            point_time = attach_until(time, thread, top, points, attached, messages, calls, losses)
            is_tied = point_time == time
            if is_tied and thread.tie_time != time:
                # Such a point lies in the closed interval of several calls. It belongs to the call that is
                # entered or left first at that instant, but a message to an MPI call, if one is among them.
                # A collective operation is entered when its call is, so it belongs to the last of these.
                thread.tie_time = time
                thread.tie_entered = NONE
                thread.tie_call = top if is_exit else NONE
                thread.tie_mpi = top if top != NONE and is_mpi[calls[top].function] != 0 else NONE
        # ENTRY or EXIT cannot be predicted, and each wrong guess costs the processor 15 cycles. So both do
        # the same: write an ENTRY's call into the next row, which an EXIT leaves to be written again, and
        # then end a call, which for an ENTRY is that row. A third less than with two branches.
        function = np.int32(timer)
        call = calls[np.uint64(count)]
        call.entry = time
        call.child_us = 0
        call.at_times_us = 0.0
        call.function = function
        call.thread = number
        call.parent = top
        call.depth = depth + 1
        call.step = step
        call.row = row
        call.doubts = suspect | (seen[number, timer] ^ FIRST)
        ended = top if is_exit else count
        if ended == NONE or calls[np.uint64(ended)].function != function:
            ended = _matching_call(top, function, calls, losses)
            if ended == NONE:
                losses[EXIT_WITHOUT_ENTRY] += 1
                if top != NONE:
                    # A call inside it was not seen: its exclusive time is not its own.
                    calls[top].doubts |= UNCERTAIN
                continue
            depth = calls[ended].depth
        seen[number, timer] = 1
        over = calls[np.uint64(ended)]
        parent = over.parent
        if time < over.entry:
            time = over.entry
            suspect = UNCERTAIN
        inclusive_us = time - over.entry
        if over.child_us > inclusive_us:
            over.child_us = inclusive_us
            suspect = UNCERTAIN
        if suspect != 0:
            over.doubts |= UNCERTAIN
            if is_exit and parent != NONE:
                calls[parent].doubts |= UNCERTAIN
        over.exit = time
        above = calls[np.uint64(parent if is_exit & (parent != NONE) else count)]
        above.child_us += inclusive_us
        above.children += 1
        call.exit = 0
        call.child_us = 0
        call.children = 0
        call.messages = 0
        top = parent if is_exit else count
        depth += -1 if is_exit else 1
        count += 0 if is_exit else 1
        if is_tied:
            # The innermost call may be the one that the point belongs to.
            thread = threads[np.uint64(number)]
            if thread.tie_call == NONE:
                thread.tie_call = top
            if thread.tie_mpi == NONE and top != NONE and is_mpi[calls[top].function] != 0:
                thread.tie_mpi = top
            if not is_exit and is_mpi[function] != 0:
                thread.tie_entered = top
    if number != NONE:
        _leave_thread(threads[number], top, last_time)
    _pause(len(events), count, first_us, last_us, progress)
    for number in range(progress[THREADS]):
        thread = threads[number]
        attach_until(
            np.uint64(MAX_TIME_US), thread, np.int64(thread.top), points, attached, messages, calls, losses
        )
    return DONE


@inner
def _leave_thread(thread: Any, top: int, last_time: np.uint64) -> None:
    thread.top = top
    thread.last_time = last_time


@inner
def _pause(
    row: int, count: int, first_us: np.uint64, last_us: np.uint64, progress: npt.NDArray[np.int64]
) -> None:
    progress[NEXT_ROW] = row
    progress[CALLS] = count
    progress[FIRST_US] = first_us
    progress[LAST_US] = last_us


@inner
def _matching_call(top: int, function: np.int32, calls: Table, losses: npt.NDArray[np.int64]) -> int:
    """Return the open call that an EXIT of ``function`` ends, or -1.

    Where it is not the innermost one, the EXITs of those inside it were lost: they are given up, so that one
    lost EXIT does not wedge all enclosing calls.
    """
    call = top
    looked = 0
    while call != NONE and calls[call].function != function and looked < MAX_DEPTH:
        call = calls[call].parent
        looked += 1
    if call == NONE or calls[call].function != function:
        return NONE
    while top != call:
        calls[top].doubts |= LOST
        losses[LOST_EXIT] += 1
        top = give_up(top, calls)
    calls[call].doubts |= UNCERTAIN
    return call
