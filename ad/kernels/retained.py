"""Tables that records are made from, across the steps of a stream, and the calls they hold, compiled; used by
``ad.kernels.windows`` and wrapped by ``ad.calls.windows``.

A *reference* names a call: a number that is not negative is a row of the step's call table, ``~n`` is the
held call n, and ``EMPTY`` is none. Between two steps all references are to held calls. A held call that is
still open is a row of the next step's table, in which carried calls stand first, in the order of the open
calls here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Int32Array, Table, UInt8Array, UInt32Array, UInt64Array
from chimbuko.core.calls.recordarrays import COLLECTIVE, RECEIVED, SENT
from chimbuko.core.kernels.arrays import sort
from chimbuko.core.kernels.declare import Whole, inner, kernel
from chimbuko.core.traceschema import (
    COLLECTIVE_TYPE,
    COMM_PARTNER,
    COMM_SIZE,
    COMM_TAG,
    COMM_TIME,
    COMM_TYPE,
    COUNTER_NUMBER,
    COUNTER_TIME,
    COUNTER_VALUE,
)

Sizes = npt.NDArray[np.int64]

EMPTY = -(1 << 31)
MAX_COUNTERS = 1 << 16
"""Counter id from which ids are absurd, and all become this one."""

HELD = np.dtype(
    [
        ("row", np.int32),  # of the next step's call table while the call is open, or NONE
        ("first_message", np.int32),
        ("messages", np.int32),
        ("messages_seen", np.int32),  # more than the messages where there were too many
        ("first_counter", np.int32),
        ("counters", np.int32),
        ("counters_seen", np.int32),
    ],
    align=True,
)
"""Fields of a held call that are not in its ``MEMBER`` row."""

# Cells of the sizes of tables: how many rows are in use.
MEMBERS = 0
MESSAGES = 1
COUNTERS = 2
OPEN = 3
RECORDS = 4
FRAMES = 5
NODE_STATE = 6
METRICS = 7
LAUNCH_FRAMES = 8
FUNCTIONS = 9
COUNTER_NAMES = 10
SIZES = 11


class Pool(NamedTuple):
    """Held calls, with their messages and counter values."""

    sizes: Sizes
    members: Table
    """``MEMBER`` rows of the held calls."""
    links: Table
    """``HELD`` rows of the same calls."""
    messages: Table
    """``MESSAGE`` rows of the held calls."""
    counters: Table
    """``COUNTER`` rows of the held calls."""


class Here(NamedTuple):
    """Calls, messages and counter values of one step."""

    calls: Table
    """``CALL`` rows of the step."""
    carried: int
    total: int
    """Number of rows of the call table that are in use."""
    timers: int
    """Upper bound (exclusive) of the functions."""
    threads: Table
    """``THREAD`` rows of the stream."""
    thread_count: int
    comms: UInt64Array
    notes: UInt32Array
    """Communicator and number of each message, uint32[messages, 2]."""
    counters: UInt64Array
    send_type: np.uint64


class Links(NamedTuple):
    """Working memory of one step."""

    is_anomaly: UInt8Array
    """Whether each call is abnormal, uint8[calls]; all 0 between steps."""
    previous: Int32Array
    """Call entered before each one on the same thread in this step, or NONE; int32[calls]."""
    following: Int32Array
    first: Int32Array
    """First call entered on each thread in this step, or NONE; int32[threads]."""
    last: Int32Array
    first_message: Int32Array
    """First message of each held call in this step, by its new number, or NONE; int32[held]."""
    next_message: Int32Array
    messages_left: Int32Array
    """Number of messages of the same call from each one on, int32[messages]."""
    first_counter: Int32Array
    next_counter: Int32Array
    counters_left: Int32Array
    of_rows: Int32Array
    """New number of the held call for each row of the call table, or NONE; all NONE between steps;
    int32[calls].
    """
    of_held: Int32Array
    """New number of each held call by its old number, int32[held]."""
    sources: Int32Array
    """Reference of each held call by its new number, int32[held]."""


@inner
def link_calls(
    calls: Table,
    carried: int,
    total: int,
    threads: int,
    previous: Int32Array,
    following: Int32Array,
    first: Int32Array,
    last: Int32Array,
) -> None:
    """Chain the calls that were entered in the step, thread by thread, in order of entry."""
    for thread in range(len(first)):
        first[thread] = last[thread] = NONE
    if threads == 1 and total > carried:
        # Nothing of the calls has to be read, and in slices the loop is one of vectors: 2 µs instead of 70.
        behind, ahead = previous[carried:total], following[carried:total]
        for at in range(total - carried):
            behind[at] = carried + at - 1
            ahead[at] = carried + at + 1
        behind[0] = NONE
        ahead[-1] = NONE
        first[0] = carried
        last[0] = total - 1
        return
    for row in range(carried, total):
        thread = calls[row].thread
        before = last[thread]
        previous[row] = before
        following[row] = NONE
        if before == NONE:
            first[thread] = row
        else:
            following[before] = row
        last[thread] = row


@kernel
def open_rows(calls: Table, threads: Table, thread_count: int) -> Int32Array:
    """Return the rows of the open calls, ascending: the order in which the next step's table has them."""
    count = 0
    for thread in range(thread_count):
        row = threads[thread].top
        while row != NONE:
            count += 1
            row = calls[row].parent
    rows = np.empty(count, np.int32)
    count = 0
    for thread in range(thread_count):
        row = threads[thread].top
        while row != NONE:
            rows[count] = row
            count += 1
            row = calls[row].parent
    sort(rows)
    return rows


@inner
def _chain_points(
    owners: Int32Array, of_rows: Int32Array, held: int, first: Int32Array, after: Int32Array, left: Int32Array
) -> None:
    """Chain the messages or counter values of held calls; ``owners``, int32[points], has the call of each, or
    NONE.
    """
    for number in range(held):
        first[number] = NONE
    for point in range(len(owners) - 1, -1, -1):
        row = owners[point]
        number = of_rows[row] if row != NONE else NONE
        if number == NONE:
            continue
        behind = first[number]
        after[point] = behind
        left[point] = left[behind] + 1 if behind != NONE else 1
        first[number] = point


@inner
def clear(sizes: Sizes) -> None:
    """Set all to 0; an assignment to a slice takes five times as long to compile, wherever it stands."""
    for cell in range(len(sizes)):
        sizes[cell] = 0


@inner
def copy_row(into: Int32Array, to: Whole, source: Int32Array, at: Whole) -> None:
    """Assign ``into[to] = source[at]``, for two arrays with as many columns; see ``clear``."""
    for place in range(into.shape[1]):
        into[to, place] = source[at, place]


@inner
def number_references(references: Int32Array, rows: int, held: Table, links: Links, sizes: Sizes) -> None:
    """Turn references, an int32 array, into ``~`` new numbers, of which each call gets one.

    ``sizes`` are the new ones.
    """
    of_rows, of_held, sources = links.of_rows, links.of_held, links.sources
    count = sizes[MEMBERS]
    for at in range(rows):
        for place in range(references.shape[1]):
            reference = references[at, place]
            if reference == EMPTY:
                continue
            if reference < 0 and held[~reference].row != NONE:
                reference = held[~reference].row
            number = of_rows[reference] if reference >= 0 else of_held[~reference]
            if number == NONE:
                number = count
                count += 1
                sources[number] = reference
                if reference >= 0:
                    of_rows[reference] = number
                else:
                    of_held[~reference] = number
            references[at, place] = ~number
    sizes[MEMBERS] = count


@inner
def fill_member(member: Any, calls: Table, row: int, is_anomaly: int) -> None:
    """Write the call in a row of the call table into a ``MEMBER`` row."""
    call = calls[row]
    member.entry_us = call.entry
    member.exit_us = call.exit
    member.step = call.step
    member.row = call.row
    member.parent_step = NONE
    member.parent_row = NONE
    if call.parent != NONE:
        member.parent_step = calls[call.parent].step
        member.parent_row = calls[call.parent].row
    member.function = call.function
    member.depth = call.depth
    member.is_anomaly = is_anomaly


@inner
def hold_calls(
    pool: Pool,
    later: Pool,
    here: Here,
    links: Links,
    own: Int32Array,
    message_owners: Int32Array,
    counter_owners: Int32Array,
    most_messages: int,
    most_counters: int,
) -> None:
    """Fill ``later`` with the calls that were numbered, from the step and from ``pool``.

    ``own``, int32[carried], has the references under which the carried calls are held in ``pool``;
    ``message_owners``, ``counter_owners`` the call of each message and counter value, or NONE.
    """
    calls, is_anomaly, carried = here.calls, links.is_anomaly, here.carried
    sources, of_rows = links.sources, links.of_rows
    old_members, old_links, new_members, new_links = pool.members, pool.links, later.members, later.links
    for number in range(later.sizes[MEMBERS]):
        reference = sources[number]
        link = new_links[number]
        link.row = NONE
        link.messages = 0
        link.messages_seen = 0
        link.counters = 0
        link.counters_seen = 0
        held = ~reference
        if reference >= 0:
            held = ~own[reference] if reference < carried else NONE
            fill_member(new_members[number], calls, reference, is_anomaly[reference])
        else:
            new_members[number] = old_members[held]
        if held != NONE:
            link.messages_seen = old_links[held].messages_seen
            link.counters_seen = old_links[held].counters_seen
            link.messages = old_links[held].messages
            link.counters = old_links[held].counters
            link.first_message = old_links[held].first_message
            link.first_counter = old_links[held].first_counter
    _hold_messages(pool, later, here, links, message_owners, most_messages)
    _hold_counters(pool, later, here, links, counter_owners, most_counters)
    for number in range(later.sizes[MEMBERS]):
        if sources[number] >= 0:
            of_rows[sources[number]] = NONE


@inner
def _hold_messages(pool: Pool, later: Pool, here: Here, links: Links, owners: Int32Array, most: int) -> None:
    """Copy the messages that are held already, and add those of the step up to ``most`` per call."""
    calls, comms, notes, send_type = here.calls, here.comms, here.notes, here.send_type
    sources, first, after, left = links.sources, links.first_message, links.next_message, links.messages_left
    old, new, held = pool.messages, later.messages, later.links
    _chain_points(owners, links.of_rows, later.sizes[MEMBERS], first, after, left)
    count = 0
    for number in range(later.sizes[MEMBERS]):
        link = held[number]
        begin = count
        for at in range(link.messages):
            new[count] = old[link.first_message + at]
            count += 1
        link.first_message = begin
        row = sources[number]
        point = first[number]
        if point != NONE:
            link.messages_seen += left[point]
        while point != NONE and count < begin + most:
            message = new[count]
            message.time_us = comms[point, COMM_TIME]
            message.size_bytes = comms[point, COMM_SIZE]
            message.partner = comms[point, COMM_PARTNER]
            message.tag = comms[point, COMM_TAG]
            message.step = calls[row].step
            message.row = calls[row].row
            message.communicator = notes[point, 0]
            message.number = notes[point, 1]
            message.kind = RECEIVED
            if comms[point, COMM_TYPE] == send_type:
                message.kind = SENT
            elif comms[point, COMM_TYPE] == np.uint64(COLLECTIVE_TYPE):
                message.kind = COLLECTIVE
            count += 1
            point = after[point]
        link.messages = count - begin
    later.sizes[MESSAGES] = count


@inner
def _hold_counters(pool: Pool, later: Pool, here: Here, links: Links, owners: Int32Array, most: int) -> None:
    """Copy the counter values that are held already, and add those of the step up to ``most`` per call."""
    calls, counters = here.calls, here.counters
    sources, first, after, left = links.sources, links.first_counter, links.next_counter, links.counters_left
    old, new, held = pool.counters, later.counters, later.links
    _chain_points(owners, links.of_rows, later.sizes[MEMBERS], first, after, left)
    count = 0
    for number in range(later.sizes[MEMBERS]):
        link = held[number]
        begin = count
        for at in range(link.counters):
            new[count] = old[link.first_counter + at]
            count += 1
        link.first_counter = begin
        row = sources[number]
        point = first[number]
        if point != NONE:
            link.counters_seen += left[point]
        while point != NONE and count < begin + most:
            counter = new[count]
            counter.time_us = counters[point, COUNTER_TIME]
            counter.value = counters[point, COUNTER_VALUE]
            counter.counter = min(counters[point, COUNTER_NUMBER], np.uint64(MAX_COUNTERS))
            counter.step = calls[row].step
            counter.row = calls[row].row
            count += 1
            point = after[point]
        link.counters = count - begin
    later.sizes[COUNTERS] = count
