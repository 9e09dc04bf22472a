"""Packing of the details of recorded calls into few bytes, which ``chimbuko.provenance.store.decode`` reads.

Numbers are written seven bits a byte, lowest first, the eighth bit says that more follow; what may be
negative is folded first (0, -1, 1, -2 ... as 0, 1, 2, 3 ...). Times, places and functions are written as
differences, most of which fit into one byte. Functions and counters are numbered by the store.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Rows
from chimbuko.core.calls.recordarrays import COLLECTIVE, SENT
from chimbuko.core.kernels.arrays import first_from
from chimbuko.core.kernels.declare import inner, kernel

Bytes = npt.NDArray[np.uint8]
Ends = npt.NDArray[np.int64]

COUNTS_BYTES = 60
"""Most bytes per record, besides its rows."""
ROW_BYTES = 80
"""Most bytes per row of any kind."""


@kernel
def renumber(
    numbers: npt.NDArray[np.int32], known: npt.NDArray[np.int64], stored: npt.NDArray[np.int64]
) -> bool:
    """Replace ``known[i]`` by ``stored[i]`` in place, ``known`` ascending.

    Return False if a number is not known.
    """
    for i in range(len(numbers)):
        at = first_from(known, numbers[i])
        if at == len(known) or known[at] != numbers[i]:
            return False
        numbers[i] = stored[at]
    return True


@kernel
def pack_details(
    heads: Rows,
    frames: Rows,
    members: Rows,
    messages: Rows,
    counters: Rows,
    metrics: Rows,
    launch_frames: Rows,
    out: Bytes,
    ends: Ends,
) -> None:
    """Write the details of each record to ``out``, one after the other; ``ends[i]`` is where they end.

    Parameters
    ----------
    heads, frames, members, messages, counters, metrics, launch_frames
        Rows of ``chimbuko.core.calls.recordarrays``.
    out
        u1, at least ``COUNTS_BYTES`` per record and ``ROW_BYTES`` per row.
    ends
        i8[records].
    """
    frame, member, message, counter, metric, launch = 0, 0, 0, 0, 0, 0
    at = 0
    for i in range(len(heads)):
        head = heads[i]
        frames_end, members_end = frame + head.frames, member + head.members
        own_members = members[member:members_end]
        at = _unsigned(out, at, np.uint64(head.frames))
        at = _unsigned(out, at, np.uint64(head.members))
        at = _unsigned(out, at, np.uint64(head.messages))
        at = _unsigned(out, at, np.uint64(head.counters))
        at = _unsigned(out, at, np.uint64(head.metrics))
        at = _unsigned(out, at, np.uint64(head.launch_frames))
        at = _frames(out, at, head, frames[frame:frames_end])
        at = _members(out, at, head, own_members, frames[frame:frames_end])
        at = _messages(out, at, head, messages[message : message + head.messages], own_members)
        at = _counters(out, at, head, counters[counter : counter + head.counters], own_members)
        at = _counters(out, at, head, metrics[metric : metric + head.metrics], own_members)
        at = _frames(out, at, head, launch_frames[launch : launch + head.launch_frames])
        at = _numbers(out, at, messages[message : message + head.messages])
        frame, member = frames_end, members_end
        message += head.messages
        counter += head.counters
        metric += head.metrics
        launch += head.launch_frames
        ends[i] = at


@kernel
def pack_node_states(heads: Rows, node_state: Rows, out: Bytes, ends: Ends) -> None:
    """Write the watched counters of each record, ``COUNTER`` rows, like ``pack_details``."""
    first = 0
    at = 0
    for i in range(len(heads)):
        count = heads[i].node_state
        at = _unsigned(out, at, np.uint64(count))
        time_us = np.int64(0)
        for row in node_state[first : first + count]:
            at = _signed(out, at, np.int64(row.time_us) - time_us)
            at = _unsigned(out, at, row.value)
            at = _unsigned(out, at, np.uint64(row.counter))
            time_us = np.int64(row.time_us)
        first += count
        ends[i] = at


@inner
def _frames(out: Bytes, at: int, head: Any, rows: Rows) -> int:
    entry_us, step, place = np.int64(head.entry_us), head.begin_step, head.begin_row
    for row in rows:
        at = _call(out, at, head, row, entry_us, step, place)
        entry_us, step, place = np.int64(row.entry_us), row.step, row.row
    return at


@inner
def _members(out: Bytes, at: int, head: Any, rows: Rows, frames: Rows) -> int:
    entry_us, step, place = np.int64(head.entry_us), head.begin_step, head.begin_row
    for i in range(len(rows)):
        row = rows[i]
        at = _call(out, at, head, row, entry_us, step, place)
        at = _signed(out, at, np.int64(row.depth) - head.depth)
        back = _distance(rows[:i], frames, row.parent_step, row.parent_row)
        at = _unsigned(out, at, np.uint64(back))
        if back == 0:
            at = _signed(out, at, np.int64(row.parent_step) - head.begin_step)
            at = _signed(out, at, np.int64(row.parent_row) - head.begin_row)
        entry_us, step, place = np.int64(row.entry_us), row.step, row.row
    return at


@inner
def _call(out: Bytes, at: int, head: Any, row: Any, entry_us: np.int64, step: int, place: int) -> int:
    """Write what frames and members have in common, as differences from the call before."""
    at = _signed(out, at, np.int64(row.entry_us) - entry_us)
    runtime = np.uint64(0) if row.exit_us == 0 else np.uint64(row.exit_us - row.entry_us) + np.uint64(1)
    at = _unsigned(out, at, (runtime << np.uint64(1)) | np.uint64(row.is_anomaly))
    other_step = np.uint64(row.step != step)
    at = _unsigned(out, at, (_folded(np.int64(row.row) - place) << np.uint64(1)) | other_step)
    if other_step:
        at = _signed(out, at, np.int64(row.step) - step)
    return _signed(out, at, np.int64(row.function) - head.function)


@inner
def _distance(before: Rows, frames: Rows, step: int, place: int) -> int:
    """Return how far back a call stands, from 1: among the members before, then in the call stack; else 0."""
    for i in range(len(before)):
        row = before[len(before) - 1 - i]
        if row.row == place and row.step == step:
            return i + 1
    for i in range(len(frames)):
        if frames[i].row == place and frames[i].step == step:
            return len(before) + i + 1
    return 0


@inner
def _messages(out: Bytes, at: int, head: Any, rows: Rows, members: Rows) -> int:
    time_us = np.int64(head.entry_us)
    for row in rows:
        at = _signed(out, at, np.int64(row.time_us) - time_us)
        at = _unsigned(out, at, row.size_bytes)
        at = _unsigned(out, at, row.partner)
        at = _unsigned(out, at, row.tag)
        at = _owner(out, at, head, members, row.step, row.row, np.uint64(row.kind == SENT), np.uint64(1))
        time_us = np.int64(row.time_us)
    return at


@inner
def _numbers(out: Bytes, at: int, rows: Rows) -> int:
    """Write what MPI knows of messages; nothing if it knows nothing."""
    is_known = False
    for row in rows:
        is_known = is_known or row.communicator != 0 or row.number != 0 or row.kind == COLLECTIVE
    if not is_known:
        return at
    communicator = np.uint32(0)
    for row in rows:
        other = np.uint64(row.communicator != communicator)
        is_collective = np.uint64(row.kind == COLLECTIVE)
        at = _unsigned(
            out, at, (np.uint64(row.number) << np.uint64(2)) | (is_collective << np.uint64(1)) | other
        )
        if other:
            at = _unsigned(out, at, np.uint64(row.communicator))
        communicator = row.communicator
    return at


@inner
def _counters(out: Bytes, at: int, head: Any, rows: Rows, members: Rows) -> int:
    time_us = np.int64(head.entry_us)
    for row in rows:
        at = _signed(out, at, np.int64(row.time_us) - time_us)
        at = _unsigned(out, at, row.value)
        at = _unsigned(out, at, np.uint64(row.counter))
        at = _owner(out, at, head, members, row.step, row.row, np.uint64(0), np.uint64(0))
        time_us = np.int64(row.time_us)
    return at


@inner
def _owner(
    out: Bytes,
    at: int,
    head: Any,
    members: Rows,
    step: int,
    place: int,
    flag: np.uint64,
    flag_bits: np.uint64,
) -> int:
    """Write the member that a point belongs to, counted from 1, above the bits of a flag.

    0 and the place of any other call.
    """
    found = 0
    for i in range(len(members)):
        if members[i].row == place and members[i].step == step:
            found = i + 1
            break
    at = _unsigned(out, at, (np.uint64(found) << flag_bits) | flag)
    if found == 0:
        at = _signed(out, at, np.int64(step) - head.begin_step)
        at = _signed(out, at, np.int64(place) - head.begin_row)
    return at


@inner
def _folded(value: np.int64) -> np.uint64:
    return np.uint64((value << 1) ^ (value >> 63))


@inner
def _signed(out: Bytes, at: int, value: np.int64) -> int:
    return _unsigned(out, at, _folded(value))


@inner
def _unsigned(out: Bytes, at: int, value: np.uint64) -> int:
    while value >= np.uint64(128):
        out[at] = np.uint8(value & np.uint64(127)) | np.uint8(128)
        value >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(value)
    return at + 1
