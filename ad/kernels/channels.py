"""Messages of a rank, compiled: their numbers on channels, wrapped by ``ad.calls.channels``, and counts by
destination, wrapped by ``ad.analysis.streamtelemetry``.

A channel is what MPI keeps in order: messages from one rank to another, on one communicator, with one tag.
The n-th message that is sent on it is the one for which the n-th receive was posted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Int32Array, Int64Array, Table, UInt32Array, UInt64Array
from chimbuko.core.kernels.declare import Whole, inner, kernel
from chimbuko.core.traceschema import (
    COLLECTIVE_TYPE,
    COMM_COLUMNS,
    COMM_PARTNER,
    COMM_PROGRAM,
    COMM_RANK,
    COMM_SIZE,
    COMM_TAG,
    COMM_THREAD,
    COMM_TIME,
    COMM_TYPE,
    DETAIL_COMMUNICATOR,
    DETAIL_REQUEST,
    NO_PEER,
    OPERATION_COMMUNICATOR,
    OPERATION_KIND,
    OPERATION_NUMBER,
    OPERATION_PEER,
    OPERATION_PROGRAM,
    OPERATION_RANK,
    OPERATION_REQUEST,
    OPERATION_SIZE,
    OPERATION_THREAD,
    OPERATION_TIME,
    Operation,
)

OTHERS_ROW = 0
MOST_MESSAGE_BYTES = 1 << 48
"""Size from which a message is damage: its size is not counted."""


@kernel
def count_sends(
    comms: npt.NDArray[np.uint64],
    rank: np.uint64,
    send_type: np.uint64,
    places: npt.NDArray[np.int32],
    destinations: npt.NDArray[np.int32],
    totals: npt.NDArray[np.int64],
    count: int,
) -> int:
    """Add the messages sent in a step to ``totals``; return the number of rows in use.

    Parameters
    ----------
    comms
        uint64[n, 8] in TAU's layout. Rows of another rank, or of messages received, are left out.
    places
        Row of each destination, or 0; int32[ranks].
    destinations, totals
        Destination of each row, and its messages and bytes; int32[rows], int64[rows, 2]. Row 0 is for all
        those for which there is no room.
    count
        Rows in use, at least one.
    """
    for at in range(len(comms)):
        if comms[at, COMM_TYPE] != send_type or comms[at, COMM_PROGRAM] != 0 or comms[at, COMM_RANK] != rank:
            continue
        destination = comms[at, COMM_PARTNER]
        row = OTHERS_ROW
        if destination < np.uint64(len(places)):
            row = places[destination]
            if row == OTHERS_ROW and count < len(destinations):
                row = count
                places[destination] = row
                destinations[row] = destination
                count += 1
        totals[row, 0] += 1
        size_bytes = comms[at, COMM_SIZE]
        if size_bytes < np.uint64(MOST_MESSAGE_BYTES):
            totals[row, 1] += np.int64(size_bytes)
    return count


CHANNEL = np.dtype(
    [
        ("partner", np.uint64),
        ("tag", np.uint64),
        ("last_request", np.uint64),  # the rank's newest request that is counted here
        ("communicator", np.uint32),
        ("count", np.uint32),
        ("direction", np.uint8),  # FREE, SENT or RECEIVED
    ],
    align=True,
)
POSTED = np.dtype([("request", np.uint64), ("number", np.uint32)], align=True)
"""A receive from a known rank with a known tag that has not ended; its row follows from its request."""
WILDCARD = np.dtype(
    [("request", np.uint64), ("source", np.uint64), ("tag", np.uint64), ("communicator", np.uint32)],
    align=True,
)
"""A receive from any rank, or with any tag, that has not ended."""

FREE, SENT, RECEIVED = np.uint8(0), np.uint8(1), np.uint8(2)
MOST_WILDCARDS = 64
_RECEIVE_POSTED = int(Operation.RECEIVE_POSTED)
_COLLECTIVE = int(Operation.COLLECTIVE)

# Cells of a state.
CHANNELS = 0
WILDCARDS = 1
NEWEST_REQUEST = 2
IS_UNCERTAIN = 3
"""Cell that is 1 when there were more wildcards than can be remembered: from then on receives have no number.
"""
NEXT_MESSAGE = 4
"""Cell with the index of the step's next message; this and the following cell are 0 between steps."""
NEXT_OPERATION = 5
CELLS = 6
_NEVER = (1 << 64) - 1


@kernel
def short_communicator(identity: np.uint64) -> np.uint32:
    """Return a communicator's number as records have it: 0 for none; half of its bits tell those of a run
    apart.
    """
    return np.uint32(0) if identity == 0 else np.uint32(max(identity >> np.uint64(32), np.uint64(1)))


@kernel
def number_messages(
    comms: UInt64Array,
    details: UInt64Array,
    operations: UInt64Array,
    send_type: np.uint64,
    channels: Table,
    posted: Table,
    wildcards: Table,
    state: Int64Array,
    most_channels: int,
    notes: UInt32Array,
) -> bool:
    """Write communicator and number of each message of a step; return False where there must be more channels
    first.

    Parameters
    ----------
    comms, details, operations
        Arrays as in a step; ``details`` may be empty. Of the operations only posted receives are looked at.
    channels
        ``CHANNEL`` rows, a power of two, as a hash table. Where it has ``most_channels`` rows, half of which
        are in use, messages of further channels get no number.
    posted, wildcards, state
        ``POSTED`` rows, a power of two, ``WILDCARD[MOST_WILDCARDS]``, and int64[CELLS].
    notes
        Communicator, 0 where it is not known, and number from 1, 0 where it is not certain; uint32[messages,
        2].
    """
    at, post = state[NEXT_MESSAGE], state[NEXT_OPERATION]
    while at < len(comms) or post < len(operations):
        if 2 * (state[CHANNELS] + 1) > len(channels) and len(channels) < most_channels:
            state[NEXT_MESSAGE], state[NEXT_OPERATION] = at, post
            return False
        communicator, request, time = np.uint32(0), np.uint64(0), np.uint64(_NEVER)
        if at < len(comms):
            if len(details) > 0:
                communicator = short_communicator(details[at, DETAIL_COMMUNICATOR])
                request = details[at, DETAIL_REQUEST]
            # Times are whole µs: of the same one a receive that waits is over, and one posted is not.
            time = comms[at, COMM_TIME] + np.uint64(request != 0)
        if post < len(operations) and operations[post, OPERATION_TIME] < time:
            if operations[post, OPERATION_KIND] == _RECEIVE_POSTED:
                _post(operations[post], channels, posted, wildcards, state)
            post += 1
            continue
        partner, tag = comms[at, COMM_PARTNER], comms[at, COMM_TAG]
        notes[at, 0] = communicator
        if comms[at, COMM_TYPE] == send_type:
            notes[at, 1] = _count(channels, state, SENT, partner, tag, communicator, np.uint64(0))
        else:
            notes[at, 1] = _receive(channels, posted, wildcards, state, partner, tag, communicator, request)
        at += 1
    state[NEXT_MESSAGE] = state[NEXT_OPERATION] = 0
    return True


@kernel
def add_collectives(
    comms: UInt64Array,
    notes: UInt32Array,
    operations: UInt64Array,
    rows: UInt64Array,
    row_notes: UInt32Array,
) -> int:
    """Write the messages of a step and its collective operations, in order of time; return their number.

    Parameters
    ----------
    comms, notes, operations
        Arrays as in ``number_messages``, each in order of time. Only collective operations are looked at.
    rows, row_notes
        uint64[messages + operations, COMM_COLUMNS] and uint32[messages + operations, 2], which receive them.
    """
    count, at, post = 0, 0, 0
    while at < len(comms) or post < len(operations):
        if post < len(operations) and operations[post, OPERATION_KIND] != _COLLECTIVE:
            post += 1
            continue
        is_message = post == len(operations)
        if not is_message and at < len(comms):
            is_message = comms[at, COMM_TIME] <= operations[post, OPERATION_TIME]
        if is_message:
            for column in range(COMM_COLUMNS):
                rows[count, column] = comms[at, column]
            row_notes[count, 0], row_notes[count, 1] = notes[at, 0], notes[at, 1]
            at += 1
        else:
            root = operations[post, OPERATION_PEER]
            rows[count, COMM_PROGRAM] = operations[post, OPERATION_PROGRAM]
            rows[count, COMM_RANK] = operations[post, OPERATION_RANK]
            rows[count, COMM_THREAD] = operations[post, OPERATION_THREAD]
            rows[count, COMM_TYPE] = np.uint64(COLLECTIVE_TYPE)
            rows[count, COMM_TAG] = np.uint64(0)
            rows[count, COMM_PARTNER] = (
                operations[post, OPERATION_RANK] if root == np.uint64(NO_PEER) else root
            )
            rows[count, COMM_SIZE] = operations[post, OPERATION_SIZE]
            rows[count, COMM_TIME] = operations[post, OPERATION_TIME]
            row_notes[count, 0] = short_communicator(operations[post, OPERATION_COMMUNICATOR])
            row_notes[count, 1] = np.uint32(operations[post, OPERATION_NUMBER] + np.uint64(1))
            post += 1
        count += 1
    return count


@kernel
def find_landmarks(
    notes: UInt32Array, message_calls: Int32Array, calls: Table, first: int, rows: Int32Array
) -> int:
    """Write the calls of messages whose numbers are powers of two from ``first`` on; return their number.

    Parameters
    ----------
    message_calls
        Row of the call of each message, negative for none; int32[messages].
    calls
        ``CALL`` rows: open or doubtful ones are passed over.
    rows
        Receives the first ones, ascending, each once; int32[most].
    """
    found = 0
    for message in range(len(notes)):
        number, row = notes[message, 1], message_calls[message]
        if number < first or number & (number - np.uint32(1)) != 0 or row < 0:
            continue
        if calls[row].exit == 0 or calls[row].doubts != 0:
            continue
        at = found
        while at > 0 and rows[at - 1] > row:
            at -= 1
        if at == len(rows) or (at > 0 and rows[at - 1] == row):
            continue
        if found < len(rows):
            found += 1
        for later in range(found - 1, at, -1):
            rows[later] = rows[later - 1]
        rows[at] = row
    return found


@kernel
def move_channels(channels: Table, into: Table, state: Int64Array) -> None:
    """Move the channels of a table into a larger one, which is empty."""
    state[CHANNELS] = 0
    for at in range(len(channels)):
        old = channels[at]
        if old.direction != FREE:
            place = _channel(into, state, old.direction, old.partner, old.tag, old.communicator)
            into[place].count = old.count
            into[place].last_request = old.last_request


@inner
def _post(operation: Any, channels: Table, posted: Table, wildcards: Table, state: Int64Array) -> None:
    request = operation[OPERATION_REQUEST]
    source, tag = operation[OPERATION_PEER], operation[OPERATION_NUMBER]
    communicator = short_communicator(operation[OPERATION_COMMUNICATOR])
    state[NEWEST_REQUEST] = max(state[NEWEST_REQUEST], np.int64(request))
    if source == np.uint64(NO_PEER) or tag == np.uint64(NO_PEER):
        if state[WILDCARDS] == len(wildcards):
            state[IS_UNCERTAIN] = 1
            return
        wildcard = wildcards[state[WILDCARDS]]
        state[WILDCARDS] += 1
        wildcard.request = request
        wildcard.source = source
        wildcard.tag = tag
        wildcard.communicator = communicator
        return
    number = _count(channels, state, RECEIVED, source, tag, communicator, request)
    for at in range(state[WILDCARDS]):
        if _takes(wildcards[at], source, tag, communicator):
            number = np.uint32(0)
    place = posted[request & np.uint64(len(posted) - 1)]
    place.request = request
    place.number = number


@inner
def _receive(
    channels: Table,
    posted: Table,
    wildcards: Table,
    state: Int64Array,
    partner: np.uint64,
    tag: np.uint64,
    communicator: np.uint32,
    request: np.uint64,
) -> np.uint32:
    """Return the number of a message that was received."""
    own = -1
    is_certain = state[IS_UNCERTAIN] == 0
    for at in range(state[WILDCARDS]):
        if request != 0 and wildcards[at].request == request:
            own = at
        elif (request == 0 or wildcards[at].request < request) and _takes(
            wildcards[at], partner, tag, communicator
        ):
            # A receive that was posted earlier may have an earlier number.
            is_certain = False
    if own >= 0:
        state[WILDCARDS] -= 1
        wildcards[own] = wildcards[state[WILDCARDS]]
    elif request != 0:
        place = posted[request & np.uint64(len(posted) - 1)]
        if place.request == request:
            place.request = 0
            return place.number if is_certain else np.uint32(0)
        # The receive was posted before the stream began, or too long ago.
        is_certain = False
    number = np.uint32(0)
    row = _channel(channels, state, RECEIVED, partner, tag, communicator)
    if row >= 0:
        channel = channels[row]
        if own >= 0 and channel.last_request >= request:
            is_certain = False
        channel.count += np.uint32(1)
        channel.last_request = max(channel.last_request, request if own >= 0 else state[NEWEST_REQUEST])
        number = channel.count
    return number if is_certain else np.uint32(0)


@inner
def _takes(wildcard: Any, source: np.uint64, tag: np.uint64, communicator: np.uint32) -> bool:
    """Return whether a message could have been received by a wildcard."""
    is_source = wildcard.source == np.uint64(NO_PEER) or wildcard.source == source
    is_tag = wildcard.tag == np.uint64(NO_PEER) or wildcard.tag == tag
    return bool(is_source and is_tag and wildcard.communicator == communicator)


@inner
def _count(
    channels: Table,
    state: Int64Array,
    direction: np.uint8,
    partner: np.uint64,
    tag: np.uint64,
    communicator: np.uint32,
    request: np.uint64,
) -> np.uint32:
    """Count one more message; return its number, or 0 if there is no room for its channel."""
    at = _channel(channels, state, direction, partner, tag, communicator)
    if at < 0:
        return np.uint32(0)
    channel = channels[at]
    channel.count += np.uint32(1)
    channel.last_request = max(channel.last_request, request)
    return np.uint32(channel.count)


@inner
def _half(number: np.uint64) -> np.uint64:
    return np.uint64((number ^ (number >> np.uint64(32))) & np.uint64(0xFFFFFFFF))


@inner
def _channel(
    channels: Table,
    state: Int64Array,
    direction: np.uint8,
    partner: np.uint64,
    tag: np.uint64,
    communicator: np.uint32,
) -> Whole:
    """Return the row of a channel, a new one if needed; -1 if there is no room."""
    last = np.uint64(len(channels) - 1)
    # The factors have 32 bits each, so that nothing overflows.
    hashed = _half(partner) * np.uint64(0x9E3779B1) ^ _half(tag) * np.uint64(0x85EBCA77)
    hashed ^= np.uint64(communicator) * np.uint64(0xC2B2AE3D) + np.uint64(direction)
    at = (hashed ^ (hashed >> np.uint64(32))) & last
    while channels[at].direction != FREE:
        channel = channels[at]
        if (
            channel.direction == direction
            and channel.partner == partner
            and channel.tag == tag
            and channel.communicator == communicator
        ):
            return np.int64(at)
        at = (at + np.uint64(1)) & last
    if 2 * state[CHANNELS] >= len(channels):
        return -1
    state[CHANNELS] += 1
    channel = channels[at]
    channel.direction = direction
    channel.partner = partner
    channel.tag = tag
    channel.communicator = communicator
    channel.count = 0
    channel.last_request = 0
    return np.int64(at)
