"""Making the records of a step out of its calls and of those that are held, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from chimbuko.ad.kernels.held import (
    COUNTER_NAMES,
    COUNTERS,
    EMPTY,
    FRAMES,
    FUNCTIONS,
    LAUNCH_FRAMES,
    MEMBERS,
    MESSAGES,
    METRICS,
    NODE_STATE,
    OPEN,
    RECORDS,
    Here,
    Int32Array,
    Links,
    Pool,
    Sizes,
    UInt8Array,
    hold_calls,
    link_calls,
    number_references,
    open_rows,
)
from chimbuko.ad.kernels.stack import NONE, Table

Float64Array = npt.NDArray[np.float64]

MAX_FRAMES = 1000
"""Innermost calls of a stack that are kept: a recursion that runs away would fill the memory."""

WINDOW = np.dtype(
    [
        ("thread", np.int32),
        ("before", np.int32),  # how many neighbours are known
        ("after", np.int32),
        ("last_step", np.int32),  # a record is final after this step, filled or not
    ],
    align=True,
)
"""A window; the references to its calls stand in the row of an array i4[windows, 2k + 1] around its own."""


# Cells of what there is room for.
ROOM_CALLS = 0
ROOM_THREADS = 1
ROOM_TIMERS = 2
ROOM_STEP_MESSAGES = 3
ROOM_STEP_COUNTERS = 4
ROOM_RECORDS = 5
ROOM_FRAMES = 6
ROOM_NODE_STATE = 7
ROOM_METRICS = 8
ROOM_LAUNCH_FRAMES = 9
ROOM_OPEN = 10
ROOM_HELD = 11
ROOM_MESSAGES = 12
ROOM_COUNTERS = 13
ROOMS = 14


class Room(NamedTuple):
    """How many rows of each kind a step needs at most, and for how many there is room."""

    needed: Sizes
    """i8[ROOMS]"""
    given: Sizes


class Places(NamedTuple):
    """Where references to held calls stand."""

    sizes: Sizes
    recent: Int32Array
    """i4[threads, k]: the last calls entered on each thread, newest last."""
    open: Table
    """``WINDOW``: of the open calls, in order of their rows."""
    open_around: Int32Array
    heads: Table
    """``HEAD``: records whose window has not filled."""
    windows: Table
    """``WINDOW``: of these records."""
    around: Int32Array
    frames: Int32Array
    """References to the calls of the records' stacks; ``heads`` tells how many each has."""
    node_state: Table
    metrics: Table
    launch_frames: Table


class Chosen(NamedTuple):
    """The calls to record, in order of their rows, with what belongs to each of them alone.

    Where none has metrics, or none a launch, their arrays are empty.
    """

    rows: Int32Array
    is_anomaly: npt.NDArray[np.bool_]
    score: Float64Array
    severity_us: Float64Array
    expected_us: Float64Array
    spread_us: Float64Array
    seen: Float64Array
    metrics_count: Int32Array
    metrics: Table
    """``COUNTER``"""
    launch_step: Int32Array
    launch_row: Int32Array
    launch_count: Int32Array
    launch_frames: Table
    """``MEMBER``"""


class About(NamedTuple):
    """What all records of a step share."""

    step: int
    start_us: int
    end_us: int
    model_version: int
    final_after_steps: int
    max_messages: int
    max_counters: int
    is_gpu: UInt8Array
    """u1[threads]"""
    node_state: Table
    """``COUNTER``"""


class Out(NamedTuple):
    """Records as in ``PackedRecords``."""

    sizes: Sizes
    heads: Table
    frames: Table
    members: Table
    messages: Table
    counters: Table
    metrics: Table
    node_state: Table
    launch_frames: Table
    calls: Int32Array
    """Numbers of the held calls in ``members``."""
    callers: Int32Array
    """Of those in ``frames``."""
    functions: Int32Array
    """Those that are mentioned."""
    is_mentioned: UInt8Array
    """u1[timers]: marks them."""
    counter_names: Int32Array
    is_counter_mentioned: UInt8Array


@njit(cache=True, nogil=True)
def _extend(windows: Table, around: Int32Array, count: int, first: Int32Array, following: Int32Array) -> None:
    """Add the first calls of the step to the windows that lack neighbours after their call."""
    k = around.shape[1] // 2
    for at in range(count):
        window = windows[at]
        if window.after == k:
            continue
        row = first[window.thread]
        while row != NONE and window.after < k:
            window.after += 1
            around[at, k + window.after] = row
            row = following[row]


@njit(cache=True, nogil=True, inline="always")
def _surround(
    window: Any,
    around: Int32Array,
    at: int,
    row: int,
    thread: int,
    previous: Int32Array,
    following: Int32Array,
    recent: Int32Array,
) -> None:
    """Write into ``around[at]`` a call that was entered in this step, and its neighbours as far as known."""
    k = around.shape[1] // 2
    around[at] = EMPTY
    around[at, k] = row
    before = 0
    neighbour = previous[row]
    while neighbour != NONE and before < k:
        before += 1
        around[at, k - before] = neighbour
        neighbour = previous[neighbour]
    older = k - 1
    while before < k and recent[thread, older] != EMPTY:
        before += 1
        around[at, k - before] = recent[thread, older]
        older -= 1
    after = 0
    neighbour = following[row]
    while neighbour != NONE and after < k:
        after += 1
        around[at, k + after] = neighbour
        neighbour = following[neighbour]
    window.thread = thread
    window.before = before
    window.after = after


@njit(cache=True, nogil=True)
def _add_records(places: Places, here: Here, links: Links, chosen: Chosen, about: About) -> None:
    """Add a record of revision 0 for each chosen call."""
    calls, threads, is_gpu = here.calls, here.threads, about.is_gpu
    previous, following, recent = links.previous, links.following, places.recent
    windows, around, open_around = places.windows, places.around, places.open_around
    heads, frames = places.heads, places.frames
    sizes = places.sizes
    has_launches, has_metrics = len(chosen.launch_count) != 0, len(chosen.metrics_count) != 0
    frame_count = sizes[FRAMES]
    for at in range(len(chosen.rows)):
        row = chosen.rows[at]
        call = calls[row]
        record = sizes[RECORDS] + at
        if row < here.carried:
            windows[record] = places.open[row]
            around[record] = open_around[row]
        else:
            _surround(windows[record], around, record, row, call.thread, previous, following, recent)
        windows[record].last_step = about.step + about.final_after_steps
        head = heads[record]
        head.entry_us = call.entry
        head.exit_us = call.exit
        head.exclusive_us = call.exit - call.entry - call.child_us
        head.step_start_us = about.start_us
        head.step_end_us = about.end_us
        head.score = chosen.score[at]
        head.severity_us = chosen.severity_us[at]
        head.expected_us = chosen.expected_us[at]
        head.spread_us = chosen.spread_us[at]
        head.seen = np.int64(chosen.seen[at])
        head.model_version = about.model_version
        head.begin_step = call.step
        head.begin_row = call.row
        head.step = about.step
        head.thread = threads[call.thread].id
        head.function = call.function
        head.depth = call.depth
        head.children = call.children
        head.messages_count = call.messages
        head.launch_step = chosen.launch_step[at] if has_launches else NONE
        head.launch_row = chosen.launch_row[at] if has_launches else NONE
        head.node_state = len(about.node_state)
        head.metrics = chosen.metrics_count[at] if has_metrics else 0
        head.launch_frames = chosen.launch_count[at] if has_launches else 0
        head.revision = 0
        head.is_final = 0
        head.is_anomaly = chosen.is_anomaly[at]
        head.is_gpu = is_gpu[call.thread]
        begin = frame_count
        while row != NONE and frame_count < begin + MAX_FRAMES:
            frames[frame_count] = row
            frame_count += 1
            row = calls[row].parent
        head.frames = frame_count - begin
        _append(places.node_state, sizes, NODE_STATE, about.node_state, 0, len(about.node_state))
    sizes[FRAMES] = frame_count
    sizes[RECORDS] += len(chosen.rows)
    _append(places.metrics, sizes, METRICS, chosen.metrics, 0, len(chosen.metrics))
    _append(places.launch_frames, sizes, LAUNCH_FRAMES, chosen.launch_frames, 0, len(chosen.launch_frames))


@njit(cache=True, nogil=True, inline="always")
def _append(into: Table, sizes: Sizes, cell: int, source: Table, begin: int, count: int) -> None:
    for at in range(count):
        into[sizes[cell] + at] = source[begin + at]
    sizes[cell] += count


@njit(cache=True, nogil=True)
def _note_open(places: Places, here: Here, links: Links) -> None:
    """Keep the windows of the calls that are open, in order of their rows."""
    calls, open_around = here.calls, places.open_around
    previous, following, recent = links.previous, links.following, places.recent
    rows = open_rows(calls, here.threads, here.thread_count)
    for at in range(len(rows)):
        row = rows[at]
        # Carried calls stand first, so they only move towards the front.
        if row < here.carried:
            places.open[at] = places.open[row]
            open_around[at] = open_around[row]
        else:
            thread = calls[row].thread
            _surround(places.open[at], open_around, at, row, thread, previous, following, recent)
    places.sizes[OPEN] = len(rows)


@njit(cache=True, nogil=True)
def _note_recent(recent: Int32Array, thread_count: int, last: Int32Array, previous: Int32Array) -> None:
    """Note the last calls entered on each thread."""
    k = recent.shape[1]
    for thread in range(thread_count):
        entered = 0
        row = last[thread]
        while row != NONE and entered < k:
            entered += 1
            row = previous[row]
        for place in range(k - entered):
            recent[thread, place] = recent[thread, place + entered]
        row = last[thread]
        for place in range(k - 1, k - 1 - entered, -1):
            recent[thread, place] = row
            row = previous[row]


@njit(cache=True, nogil=True)
def _sort_out(places: Places, links: Table, out: Out, step: int, is_end: bool) -> None:
    """Put out the heads of records that are new or final; forget the final ones.

    ``out.calls`` and ``out.callers`` receive the numbers of the held calls of windows and stacks.
    """
    heads, windows, around, frames = places.heads, places.windows, places.around, places.frames
    calls, callers = out.calls, out.callers
    k = around.shape[1] // 2
    sizes, put = places.sizes, out.sizes
    count = sizes[RECORDS]
    frame, state, metric, launch_frame = 0, 0, 0, 0
    for cell in (RECORDS, FRAMES, NODE_STATE, METRICS, LAUNCH_FRAMES):
        sizes[cell] = 0
    for record in range(count):
        head = heads[record]
        begin = k - windows[record].before
        end = k + 1 + windows[record].after
        is_final = windows[record].after == k
        for place in range(k + 1, end):
            if links[~around[record, place]].row != NONE:
                is_final = False
        is_new = head.revision == 0
        if is_end or (not is_new and step >= windows[record].last_step):
            is_final = True
        if is_new or is_final:
            head.revision += 1
            head.is_final = is_final
            head.members = end - begin
            for at in range(head.frames):
                callers[put[FRAMES] + at] = ~frames[frame + at]
            put[FRAMES] += head.frames
            for at in range(end - begin):
                calls[put[MEMBERS] + at] = ~around[record, begin + at]
            put[MEMBERS] += end - begin
            _append(out.node_state, put, NODE_STATE, places.node_state, state, head.node_state)
            _append(out.metrics, put, METRICS, places.metrics, metric, head.metrics)
            source = places.launch_frames
            _append(out.launch_frames, put, LAUNCH_FRAMES, source, launch_frame, head.launch_frames)
            out.heads[put[RECORDS]] = head
            put[RECORDS] += 1
        next_frame = frame + head.frames
        next_state = state + head.node_state
        next_metric = metric + head.metrics
        next_launch_frame = launch_frame + head.launch_frames
        if not is_final:
            to = sizes[RECORDS]
            windows[to] = windows[record]
            around[to] = around[record]
            for at in range(head.frames):
                frames[sizes[FRAMES] + at] = frames[frame + at]
            sizes[FRAMES] += head.frames
            _append(places.node_state, sizes, NODE_STATE, places.node_state, state, head.node_state)
            _append(places.metrics, sizes, METRICS, places.metrics, metric, head.metrics)
            source = places.launch_frames
            _append(source, sizes, LAUNCH_FRAMES, source, launch_frame, head.launch_frames)
            sizes[RECORDS] = to + 1
            # Last, since it may overwrite what ``head`` shows.
            heads[to] = head
        frame, state, metric, launch_frame = next_frame, next_state, next_metric, next_launch_frame


@njit(cache=True, nogil=True)
def _put_members(members: Table, numbers: Int32Array, count: int, held: Table) -> None:
    for at in range(count):
        members[at] = held[numbers[at]]


@njit(cache=True, nogil=True)
def _mention_functions(
    rows: Table, count: int, is_mentioned: UInt8Array, functions: Int32Array, mentioned: int
) -> int:
    """Add the functions of rows to those that are mentioned; returns how many these are."""
    for at in range(count):
        number = rows[at].function
        if is_mentioned[number] == 0:
            is_mentioned[number] = 1
            functions[mentioned] = number
            mentioned += 1
    return mentioned


@njit(cache=True, nogil=True)
def _mention_counters(
    rows: Table, count: int, is_mentioned: UInt8Array, names: Int32Array, mentioned: int
) -> int:
    """As ``_mention_functions``."""
    for at in range(count):
        number = rows[at].counter
        if is_mentioned[number] == 0:
            is_mentioned[number] = 1
            names[mentioned] = number
            mentioned += 1
    return mentioned


@njit(cache=True, nogil=True)
def _mention(out: Out) -> None:
    """List the functions and counters that the records mention, for their names."""
    sizes, marks, counter_marks = out.sizes, out.is_mentioned, out.is_counter_mentioned
    functions, counters = out.functions, out.counter_names
    count = _mention_functions(out.heads, sizes[RECORDS], marks, functions, 0)
    count = _mention_functions(out.members, sizes[MEMBERS], marks, functions, count)
    count = _mention_functions(out.frames, sizes[FRAMES], marks, functions, count)
    count = _mention_functions(out.launch_frames, sizes[LAUNCH_FRAMES], marks, functions, count)
    for at in range(count):
        marks[functions[at]] = 0
    sizes[FUNCTIONS] = count
    count = _mention_counters(out.counters, sizes[COUNTERS], counter_marks, counters, 0)
    count = _mention_counters(out.metrics, sizes[METRICS], counter_marks, counters, count)
    count = _mention_counters(out.node_state, sizes[NODE_STATE], counter_marks, counters, count)
    for at in range(count):
        counter_marks[counters[at]] = 0
    sizes[COUNTER_NAMES] = count


@njit(cache=True, nogil=True)
def _put_messages(out: Out, pool: Pool, most: int) -> None:
    """Put out the messages of windows, up to ``most`` for each record."""
    heads, calls, messages, links, held = out.heads, out.calls, out.messages, pool.links, pool.messages
    count = 0
    call = 0
    for record in range(out.sizes[RECORDS]):
        begin = count
        seen = 0
        for member in range(call, call + heads[record].members):
            link = links[calls[member]]
            seen += link.messages_seen
            for at in range(min(link.messages, begin + most - count)):
                messages[count] = held[link.first_message + at]
                count += 1
        call += heads[record].members
        heads[record].messages = count - begin
        heads[record].left_out = seen - (count - begin)
    out.sizes[MESSAGES] = count


@njit(cache=True, nogil=True)
def _put_counters(out: Out, pool: Pool, most: int) -> None:
    """As ``_put_messages``, after it."""
    heads, calls, counters, links, held = out.heads, out.calls, out.counters, pool.links, pool.counters
    count = 0
    call = 0
    for record in range(out.sizes[RECORDS]):
        begin = count
        seen = 0
        for member in range(call, call + heads[record].members):
            link = links[calls[member]]
            seen += link.counters_seen
            for at in range(min(link.counters, begin + most - count)):
                counters[count] = held[link.first_counter + at]
                count += 1
        call += heads[record].members
        heads[record].counters = count - begin
        heads[record].left_out += seen - (count - begin)
    out.sizes[COUNTERS] = count


@njit(cache=True, nogil=True)
def put_out(places: Places, pool: Pool, out: Out, about: About, is_end: bool) -> None:
    """Fill ``out`` with the records that are new or final; at the end of the stream all are."""
    out.sizes[:] = 0
    _sort_out(places, pool.links, out, about.step, is_end)
    _put_members(out.members, out.calls, out.sizes[MEMBERS], pool.members)
    _put_members(out.frames, out.callers, out.sizes[FRAMES], pool.members)
    _put_messages(out, pool, about.max_messages)
    _put_counters(out, pool, about.max_counters)
    _mention(out)


@njit(cache=True, nogil=True)
def _is_enough(room: Room, places: Places, pool: Pool, here: Here, chosen: Chosen, about: About) -> bool:
    """Whether there is room for all that the step can bring; ``room.needed`` tells what it is."""
    calls, threads, needed = here.calls, here.threads, room.needed
    opened = 0
    for thread in range(here.thread_count):
        if threads[thread].top != NONE:
            opened += calls[threads[thread].top].depth + 1
    frames = places.sizes[FRAMES]
    for row in chosen.rows:
        frames += min(calls[row].depth + 1, MAX_FRAMES)
    records = places.sizes[RECORDS] + len(chosen.rows)
    references = (opened + records) * places.around.shape[1] + frames
    references += here.thread_count * places.recent.shape[1]
    needed[ROOM_CALLS] = here.total
    needed[ROOM_THREADS] = len(threads)
    needed[ROOM_TIMERS] = here.timers
    needed[ROOM_STEP_MESSAGES] = len(here.comms)
    needed[ROOM_STEP_COUNTERS] = len(here.counters)
    needed[ROOM_RECORDS] = records
    needed[ROOM_FRAMES] = frames
    needed[ROOM_NODE_STATE] = places.sizes[NODE_STATE] + len(chosen.rows) * len(about.node_state)
    needed[ROOM_METRICS] = places.sizes[METRICS] + len(chosen.metrics)
    needed[ROOM_LAUNCH_FRAMES] = places.sizes[LAUNCH_FRAMES] + len(chosen.launch_frames)
    needed[ROOM_OPEN] = opened
    needed[ROOM_HELD] = min(references, pool.sizes[MEMBERS] + here.total)
    needed[ROOM_MESSAGES] = pool.sizes[MESSAGES] + len(here.comms)
    needed[ROOM_COUNTERS] = pool.sizes[COUNTERS] + len(here.counters)
    is_enough = True
    for cell in range(ROOMS):
        if needed[cell] > room.given[cell]:
            is_enough = False
    return is_enough


@njit(cache=True, nogil=True)
def make_records(
    room: Room,
    places: Places,
    pool: Pool,
    later: Pool,
    here: Here,
    links: Links,
    chosen: Chosen,
    about: About,
    out: Out,
    message_owners: Int32Array,
    counter_owners: Int32Array,
) -> bool:
    """One step: its records into ``out``, and the calls that later steps may need into ``later``.

    ``message_owners``, ``counter_owners`` name the call of each message and counter, or NONE. Where
    there is too little room nothing is done, and the answer is False.
    """
    if not _is_enough(room, places, pool, here, chosen, about):
        return False
    previous, following, is_anomaly = links.previous, links.following, links.is_anomaly
    sizes = places.sizes
    link_calls(
        here.calls,
        here.carried,
        here.total,
        here.thread_count,
        previous,
        following,
        links.first,
        links.last,
    )
    for at in range(len(chosen.rows)):
        is_anomaly[chosen.rows[at]] = chosen.is_anomaly[at]
    # The calls carried over, under the references by which they are held.
    own = places.open_around[: here.carried, places.open_around.shape[1] // 2].copy()
    _extend(places.open, places.open_around, sizes[OPEN], links.first, following)
    _extend(places.windows, places.around, sizes[RECORDS], links.first, following)
    _add_records(places, here, links, chosen, about)
    _note_open(places, here, links)
    _note_recent(places.recent, here.thread_count, links.last, previous)
    later.sizes[:] = 0
    links.of_held[: pool.sizes[MEMBERS]] = NONE
    number_references(places.open_around[: sizes[OPEN]].ravel(), pool.links, links, later.sizes)
    number_references(places.around[: sizes[RECORDS]].ravel(), pool.links, links, later.sizes)
    number_references(places.frames[: sizes[FRAMES]], pool.links, links, later.sizes)
    number_references(places.recent[: here.thread_count].ravel(), pool.links, links, later.sizes)
    hold_calls(
        pool,
        later,
        here,
        links,
        own,
        message_owners,
        counter_owners,
        about.max_messages,
        about.max_counters,
    )
    for at in range(sizes[OPEN]):
        later.links[~places.open_around[at, places.open_around.shape[1] // 2]].row = at
    for at in range(len(chosen.rows)):
        is_anomaly[chosen.rows[at]] = 0
    put_out(places, later, out, about, False)
    return True
