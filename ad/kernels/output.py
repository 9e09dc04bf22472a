"""Output of the records of a step, compiled; used by ``ad.kernels.windows`` and wrapped by
``ad.calls.windows``.
"""

from __future__ import annotations

import numpy as np

from chimbuko.ad.kernels.recordtables import About, Out, Places
from chimbuko.ad.kernels.retained import (
    COUNTER_NAMES,
    COUNTERS,
    FRAMES,
    FUNCTIONS,
    LAUNCH_FRAMES,
    MEMBERS,
    MESSAGES,
    METRICS,
    NODE_STATE,
    RECORDS,
    Pool,
    clear,
    copy_row,
)
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Int32Array, Table, UInt8Array
from chimbuko.core.kernels.declare import Whole, inner, kernel


@inner
def copy_rows(into: Table, to: np.int64, source: Table, begin: np.int64, count: np.int64) -> None:
    """Copy ``source[begin : begin + count]`` to ``into[to:]``, which may be the same table.

    See ``chimbuko.core.kernels.declare.inner`` about the type of the numbers.
    """
    for at in range(count):
        into[to + at] = source[begin + at]


@inner
def _sort_out(places: Places, links: Table, out: Out, step: int, is_end: bool) -> None:
    """Put out the heads of records that are new or final; forget the final ones.

    ``out.calls`` and ``out.callers`` receive the numbers of the held calls of windows and stacks.
    """
    heads, windows, around, frames = places.heads, places.windows, places.around, places.frames
    states, metrics, launch_frames = places.node_state, places.metrics, places.launch_frames
    out_heads, out_states, out_metrics, out_launch_frames = (
        out.heads, out.node_state, out.metrics, out.launch_frames,
    )  # fmt: skip
    calls, callers = out.calls, out.callers
    k = around.shape[1] // 2
    sizes, put = places.sizes, out.sizes
    count = sizes[RECORDS]
    frame = 0
    state = metric = launch_frame = np.int64(0)
    for cell in (RECORDS, FRAMES, NODE_STATE, METRICS, LAUNCH_FRAMES):
        sizes[cell] = 0
    for record in range(count):
        head = heads[record]
        window = windows[record]
        begin = k - window.before
        end = k + 1 + window.after
        is_final = window.after == k
        for place in range(k + 1, end):
            if links[~around[record, place]].row != NONE:
                is_final = False
        own_states, own_metrics = np.int64(head.node_state), np.int64(head.metrics)
        own_launch_frames = np.int64(head.launch_frames)
        is_new = head.revision == 0
        if is_end or (not is_new and step >= window.last_step):
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
            copy_rows(out_states, put[NODE_STATE], states, state, own_states)
            copy_rows(out_metrics, put[METRICS], metrics, metric, own_metrics)
            copy_rows(out_launch_frames, put[LAUNCH_FRAMES], launch_frames, launch_frame, own_launch_frames)
            put[NODE_STATE] += own_states
            put[METRICS] += own_metrics
            put[LAUNCH_FRAMES] += own_launch_frames
            out_heads[put[RECORDS]] = head
            put[RECORDS] += 1
        next_frame = frame + head.frames
        next_state = state + own_states
        next_metric = metric + own_metrics
        next_launch_frame = launch_frame + own_launch_frames
        if not is_final:
            to = sizes[RECORDS]
            windows[to] = window
            copy_row(around, to, around, record)
            for at in range(head.frames):
                frames[sizes[FRAMES] + at] = frames[frame + at]
            sizes[FRAMES] += head.frames
            copy_rows(states, sizes[NODE_STATE], states, state, own_states)
            copy_rows(metrics, sizes[METRICS], metrics, metric, own_metrics)
            copy_rows(launch_frames, sizes[LAUNCH_FRAMES], launch_frames, launch_frame, own_launch_frames)
            sizes[NODE_STATE] += own_states
            sizes[METRICS] += own_metrics
            sizes[LAUNCH_FRAMES] += own_launch_frames
            sizes[RECORDS] = to + 1
            # This comes last, since it may overwrite the row that ``head`` refers to.
            heads[to] = head
        frame, state, metric, launch_frame = next_frame, next_state, next_metric, next_launch_frame


@inner
def _put_members(members: Table, numbers: Int32Array, count: int, held: Table) -> None:
    for at in range(count):
        members[at] = held[numbers[at]]


@inner
def _mention_functions(
    rows: Table, count: int, is_mentioned: UInt8Array, functions: Int32Array, mentioned: Whole
) -> Whole:
    """Add the functions of rows to those that are mentioned; return their number."""
    for at in range(count):
        number = rows[at].function
        if is_mentioned[number] == 0:
            is_mentioned[number] = 1
            functions[mentioned] = number
            mentioned += 1
    return mentioned


@inner
def _mention_counters(
    rows: Table, count: int, is_mentioned: UInt8Array, names: Int32Array, mentioned: Whole
) -> Whole:
    """Add the counters of rows to those that are mentioned; return their number."""
    for at in range(count):
        number = rows[at].counter
        if is_mentioned[number] == 0:
            is_mentioned[number] = 1
            names[mentioned] = number
            mentioned += 1
    return mentioned


@inner
def _mention(out: Out) -> None:
    """List the functions and counters that the records mention, for their names."""
    sizes, marks, counter_marks = out.sizes, out.is_mentioned, out.is_counter_mentioned
    functions, counters = out.functions, out.counter_names
    count = _mention_functions(out.heads, sizes[RECORDS], marks, functions, np.int64(0))
    count = _mention_functions(out.members, sizes[MEMBERS], marks, functions, count)
    count = _mention_functions(out.frames, sizes[FRAMES], marks, functions, count)
    count = _mention_functions(out.launch_frames, sizes[LAUNCH_FRAMES], marks, functions, count)
    for at in range(count):
        marks[functions[at]] = 0
    sizes[FUNCTIONS] = count
    count = _mention_counters(out.counters, sizes[COUNTERS], counter_marks, counters, np.int64(0))
    count = _mention_counters(out.metrics, sizes[METRICS], counter_marks, counters, count)
    count = _mention_counters(out.node_state, sizes[NODE_STATE], counter_marks, counters, count)
    for at in range(count):
        counter_marks[counters[at]] = 0
    sizes[COUNTER_NAMES] = count


@inner
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


@inner
def _put_counters(out: Out, pool: Pool, most: int) -> None:
    """Put out the counter values of windows, up to ``most`` for each record; called after
    ``_put_messages``.
    """
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


@kernel
def put_out(places: Places, pool: Pool, out: Out, about: About, is_end: bool) -> None:
    """Fill ``out`` with the records that are new or final; at the end of the stream all are."""
    clear(out.sizes)
    _sort_out(places, pool.links, out, about.step, is_end)
    _put_members(out.members, out.calls, out.sizes[MEMBERS], pool.members)
    _put_members(out.frames, out.callers, out.sizes[FRAMES], pool.members)
    _put_messages(out, pool, about.max_messages)
    _put_counters(out, pool, about.max_counters)
    _mention(out)
