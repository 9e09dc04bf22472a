"""Launches of GPU kernels by their correlation ids, with the call stacks that they had, compiled; wrapped by
``ad.calls.launches``.

A ring of *nodes*: one for each launching call, and one for each call around it, which launches of the same
step share. Nodes are numbered from 0 since the stream began; the oldest are overwritten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chimbuko.ad.kernels.recordtables import MAX_FRAMES
from chimbuko.ad.kernels.retained import fill_member
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Int32Array, Int64Array, Table, UInt8Array, UInt64Array
from chimbuko.core.kernels.declare import inner, kernel

CALLER = 0
"""Kind of a node of a call around a launching one."""
LAUNCH = 1
PAIRED = 2
"""Kind of a node of a launching call whose GPU call has come."""

# Cells of the state.
NODES = 0
FORGOTTEN = 1
STATE_CELLS = 2


class Launches(NamedTuple):
    """Ring of nodes, and a hash table from correlation ids to nodes with open addressing."""

    state: Int64Array
    """Number of nodes since the stream began, and of launches overwritten that were not paired;
    int64[STATE_CELLS].
    """
    members: Table
    """``MEMBER`` rows: the calls as they were in the step of the launch."""
    callers: Int64Array
    """Number of the node of the call around each one, or NONE; int64[nodes]."""
    threads: Int32Array
    """TAU's id of the thread of each launch, int32[nodes]."""
    ids: UInt64Array
    """Correlation id of each launch, uint64[nodes]."""
    kinds: UInt8Array
    """Kind of each node, uint8[nodes]."""
    keys: UInt64Array
    """Correlation id in each slot, uint64[slots]; a power of two, at least twice the nodes."""
    numbers: Int64Array
    """Number of the node of the launch in each slot, or NONE for a free slot; int64[slots]."""


@inner
def _home(key: np.uint64, slots: int) -> np.int64:
    """Return the slot where the search for a key begins: ids are mostly consecutive, so they are spread
    already.
    """
    return np.int64((key ^ (key >> np.uint64(21)) ^ (key >> np.uint64(42))) & np.uint64(slots - 1))


@inner
def _slot_of(key: np.uint64, keys: UInt64Array, numbers: Int64Array) -> np.int64:
    """Return the slot that holds a key, or the free one where it would stand."""
    slot = _home(key, len(keys))
    while numbers[slot] != NONE and keys[slot] != key:
        slot = (slot + 1) & (len(keys) - 1)
    return slot


@inner
def _remove(slot: np.int64, keys: UInt64Array, numbers: Int64Array) -> None:
    """Free a slot, and move into it a key that was pushed on by it."""
    numbers[slot] = NONE
    other = (slot + 1) & (len(keys) - 1)
    while numbers[other] != NONE:
        home = _home(keys[other], len(keys))
        # Whether its home lies outside of what is between the free slot and its own.
        if ((other - home) & (len(keys) - 1)) >= ((other - slot) & (len(keys) - 1)):
            keys[slot] = keys[other]
            numbers[slot] = numbers[other]
            numbers[other] = NONE
            slot = other
        other = (other + 1) & (len(keys) - 1)


@inner
def _new_node(launches: Launches, kind: np.int64, key: np.uint64, caller: np.int64) -> int:
    """Return the number of a new node; the one that it overwrites is forgotten."""
    state, ids, kinds, keys, numbers = (
        launches.state, launches.ids, launches.kinds, launches.keys, launches.numbers,
    )  # fmt: skip
    number = state[NODES]
    place = number % len(kinds)
    if number >= len(kinds) and kinds[place] != CALLER:
        slot = _slot_of(ids[place], keys, numbers)
        if numbers[slot] == number - len(kinds):
            _remove(slot, keys, numbers)
            if kinds[place] == LAUNCH:
                state[FORGOTTEN] += 1
    kinds[place] = kind
    ids[place] = key
    launches.callers[place] = caller
    if kind == LAUNCH:
        slot = _slot_of(key, keys, numbers)
        keys[slot] = key
        numbers[slot] = number
    state[NODES] = number + 1
    return number


@kernel
def move_nodes(before: Launches, after: Launches) -> None:
    """Move all nodes into a larger ring, before any was overwritten; their numbers stay."""
    state, keys, numbers = after.state, after.keys, after.numbers
    state[NODES] = before.state[NODES]
    state[FORGOTTEN] = before.state[FORGOTTEN]
    for number in range(state[NODES]):
        old, new = number % len(before.kinds), number % len(after.kinds)
        after.members[new] = before.members[old]
        after.callers[new] = before.callers[old]
        after.threads[new] = before.threads[old]
        after.ids[new] = before.ids[old]
        after.kinds[new] = before.kinds[old]
        if before.kinds[old] != CALLER:
            slot = _slot_of(before.ids[old], keys, numbers)
            keys[slot] = before.ids[old]
            numbers[slot] = number


@kernel
def note_launches(
    ids: UInt64Array,
    rows: Int32Array,
    calls: Table,
    threads: Table,
    is_anomaly: UInt8Array,
    launches: Launches,
    node_of: Int64Array,
) -> None:
    """Note that the calls in ``rows``, int32[n], made the launches ``ids``, uint64[n], with their stacks.

    ``is_anomaly`` is uint8[calls]; ``node_of``, int64[calls], is all NONE, before and after.
    """
    state, members, size = launches.state, launches.members, len(launches.kinds)
    path = np.empty(MAX_FRAMES, np.int32)
    for at in range(len(ids)):
        deep = 0
        row = calls[rows[at]].parent
        while row != NONE and deep < MAX_FRAMES - 1:
            path[deep] = row
            deep += 1
            row = calls[row].parent
        caller = np.int64(NONE)
        for level in range(deep - 1, -1, -1):
            row = path[level]
            # A node that was overwritten meanwhile is made again.
            if node_of[row] == NONE or node_of[row] < state[NODES] - size:
                node_of[row] = _new_node(launches, np.int64(CALLER), np.uint64(0), caller)
                fill_member(members[node_of[row] % size], calls, row, is_anomaly[row])
            caller = node_of[row]
        number = _new_node(launches, np.int64(LAUNCH), ids[at], caller)
        fill_member(members[number % size], calls, rows[at], is_anomaly[rows[at]])
        launches.threads[number % size] = threads[calls[rows[at]].thread].id
    for at in range(len(ids)):
        row = calls[rows[at]].parent
        while row != NONE and node_of[row] != NONE:
            node_of[row] = NONE
            row = calls[row].parent


@kernel
def find_launches(ids: UInt64Array, launches: Launches, found: Int64Array) -> None:
    """Find the nodes of the launches of GPU calls, into ``found``, int64[n], NONE where there is none."""
    keys, numbers, kinds = launches.keys, launches.numbers, launches.kinds
    for at in range(len(ids)):
        number = numbers[_slot_of(ids[at], keys, numbers)]
        found[at] = number
        if number != NONE:
            kinds[number % len(kinds)] = PAIRED


@kernel
def copy_stacks(nodes: Int64Array, launches: Launches, counts: Int32Array, frames: Table) -> int:
    """Copy the stacks of launches into ``frames``, ``MEMBER`` rows, as many as fit; return the number of all
    frames.

    ``counts``, int32[n], receives the number of frames of each of the ``nodes``, int64[n].
    """
    members, callers, size = launches.members, launches.callers, len(launches.kinds)
    oldest = launches.state[NODES] - size
    count = 0
    for at in range(len(nodes)):
        begin = count
        number = nodes[at]
        while number != NONE and number >= oldest:
            if count < len(frames):
                frames[count] = members[number % size]
            count += 1
            number = callers[number % size]
        counts[at] = count - begin
    return count
