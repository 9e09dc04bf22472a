"""Making the records of a step out of its calls and of those that are held, compiled; wrapped by
``ad.calls.windows``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.ad.kernels.output import copy_rows
from chimbuko.ad.kernels.recordtables import (
    MAX_FRAMES,
    ROOM_CALLS,
    ROOM_COUNTERS,
    ROOM_FRAMES,
    ROOM_HELD,
    ROOM_LAUNCH_FRAMES,
    ROOM_MESSAGES,
    ROOM_METRICS,
    ROOM_NODE_STATE,
    ROOM_OPEN,
    ROOM_RECORDS,
    ROOM_STEP_COUNTERS,
    ROOM_STEP_MESSAGES,
    ROOM_THREADS,
    ROOM_TIMERS,
    ROOMS,
    About,
    Chosen,
    Places,
    Room,
)
from chimbuko.ad.kernels.retained import (
    COUNTERS,
    EMPTY,
    FRAMES,
    LAUNCH_FRAMES,
    MEMBERS,
    MESSAGES,
    METRICS,
    NODE_STATE,
    OPEN,
    RECORDS,
    Here,
    Links,
    Pool,
    clear,
    copy_row,
    hold_calls,
    link_calls,
    number_references,
    open_rows,
)
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Int32Array, Table
from chimbuko.core.calls.recordarrays import UNKNOWN_THREAD
from chimbuko.core.kernels.declare import inner, kernel


@inner
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


@inner
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
    for place in range(around.shape[1]):
        around[at, place] = EMPTY
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


@inner
def _add_records(places: Places, here: Here, links: Links, chosen: Chosen, about: About) -> None:
    """Add a record of revision 0 for each chosen call."""
    calls, threads, is_gpu = here.calls, here.threads, about.is_gpu
    previous, following, recent = links.previous, links.following, places.recent
    windows, around, open_around = places.windows, places.around, places.open_around
    heads, frames, node_state = places.heads, places.frames, places.node_state
    sizes = places.sizes
    states = np.int64(len(about.node_state))
    has_launches, has_metrics = len(chosen.launch_count) != 0, len(chosen.metrics_count) != 0
    frame_count = sizes[FRAMES]
    for at in range(len(chosen.rows)):
        row = chosen.rows[at]
        call = calls[row]
        record = sizes[RECORDS] + at
        if row < here.carried:
            windows[record] = places.open[row]
            copy_row(around, record, open_around, np.int64(row))
        else:
            _surround(windows[record], around, record, row, call.thread, previous, following, recent)
        windows[record].last_step = about.step + about.final_after_steps
        head = heads[record]
        head.entry_us = call.entry
        head.exit_us = call.exit
        # A call that was open across a gap has no end on record; until the gap it was open.
        seen_us = call.exit if call.exit != 0 else max(np.uint64(about.end_us), call.entry + call.child_us)
        head.inclusive_us = seen_us - call.entry
        head.exclusive_us = seen_us - call.entry - call.child_us
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
        head.launch_thread = chosen.launch_thread[at] if has_launches else UNKNOWN_THREAD
        head.node_state = states
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
        copy_rows(node_state, sizes[NODE_STATE], about.node_state, np.int64(0), states)
        sizes[NODE_STATE] += states
    sizes[FRAMES] = frame_count
    sizes[RECORDS] += len(chosen.rows)
    metrics, launch_frames = np.int64(len(chosen.metrics)), np.int64(len(chosen.launch_frames))
    copy_rows(places.metrics, sizes[METRICS], chosen.metrics, np.int64(0), metrics)
    copy_rows(places.launch_frames, sizes[LAUNCH_FRAMES], chosen.launch_frames, np.int64(0), launch_frames)
    sizes[METRICS] += metrics
    sizes[LAUNCH_FRAMES] += launch_frames


@inner
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
            copy_row(open_around, at, open_around, np.int64(row))
        else:
            thread = calls[row].thread
            _surround(places.open[at], open_around, at, row, thread, previous, following, recent)
    places.sizes[OPEN] = len(rows)


@inner
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


@inner
def _is_enough(room: Room, places: Places, pool: Pool, here: Here, chosen: Chosen, about: About) -> bool:
    """Return whether there is room for all that the step can bring; ``room.needed`` receives how much is
    needed.
    """
    calls, threads, rows = here.calls, here.threads, chosen.rows
    needed, given, sizes, held = room.needed, room.given, places.sizes, pool.sizes
    opened = 0
    for thread in range(here.thread_count):
        if threads[thread].top != NONE:
            opened += calls[threads[thread].top].depth + 1
    frames = sizes[FRAMES]
    for at in range(len(rows)):
        frames += min(np.int64(calls[rows[at]].depth) + 1, MAX_FRAMES)
    records = sizes[RECORDS] + len(rows)
    references = (opened + records) * places.around.shape[1] + frames
    references += here.thread_count * places.recent.shape[1]
    needed[ROOM_CALLS] = here.total
    needed[ROOM_THREADS] = len(threads)
    needed[ROOM_TIMERS] = here.timers
    needed[ROOM_STEP_MESSAGES] = len(here.comms)
    needed[ROOM_STEP_COUNTERS] = len(here.counters)
    needed[ROOM_RECORDS] = records
    needed[ROOM_FRAMES] = frames
    needed[ROOM_NODE_STATE] = sizes[NODE_STATE] + len(rows) * len(about.node_state)
    needed[ROOM_METRICS] = sizes[METRICS] + len(chosen.metrics)
    needed[ROOM_LAUNCH_FRAMES] = sizes[LAUNCH_FRAMES] + len(chosen.launch_frames)
    needed[ROOM_OPEN] = opened
    needed[ROOM_HELD] = min(references, held[MEMBERS] + here.total)
    needed[ROOM_MESSAGES] = held[MESSAGES] + len(here.comms)
    needed[ROOM_COUNTERS] = held[COUNTERS] + len(here.counters)
    is_enough = True
    for cell in range(ROOMS):
        if needed[cell] > given[cell]:
            is_enough = False
    return is_enough


@kernel
def make_records(
    room: Room,
    places: Places,
    pool: Pool,
    later: Pool,
    here: Here,
    links: Links,
    chosen: Chosen,
    about: About,
    message_owners: Int32Array,
    counter_owners: Int32Array,
) -> bool:
    """Make the records of one step into ``places``, and write the calls that they and later steps need into
    ``later``.

    ``message_owners``, ``counter_owners`` name the call of each message and counter value, or NONE. Where
    there is too little room nothing is done, and False is returned.
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
    for at in range(len(chosen.flagged)):
        is_anomaly[chosen.flagged[at]] = 1
    # The calls carried over, under the references by which they are held.
    open_around = places.open_around
    middle = open_around.shape[1] // 2
    own = np.empty(here.carried, np.int32)
    for at in range(here.carried):
        own[at] = open_around[at, middle]
    _extend(places.open, places.open_around, sizes[OPEN], links.first, following)
    _extend(places.windows, places.around, sizes[RECORDS], links.first, following)
    _add_records(places, here, links, chosen, about)
    _note_open(places, here, links)
    _note_recent(places.recent, here.thread_count, links.last, previous)
    clear(later.sizes)
    of_held, held_links = links.of_held, later.links
    for number in range(pool.sizes[MEMBERS]):
        of_held[number] = NONE
    number_references(open_around, sizes[OPEN], pool.links, links, later.sizes)
    number_references(places.around, sizes[RECORDS], pool.links, links, later.sizes)
    number_references(places.frames.reshape((-1, 1)), sizes[FRAMES], pool.links, links, later.sizes)
    number_references(places.recent, here.thread_count, pool.links, links, later.sizes)
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
        held_links[~open_around[at, middle]].row = at
    for at in range(len(chosen.flagged)):
        is_anomaly[chosen.flagged[at]] = 0
    return True
