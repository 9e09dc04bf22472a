"""Call paths by parent and function, compiled, with open addressing, so that a look-up is one or two
accesses; wrapped by ``chimbuko.core.calls.pathtable``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.core.arrays import Int64Array, Table, UInt64Array
from chimbuko.core.kernels.arrays import zeros
from chimbuko.core.kernels.declare import kernel

NONE = -1
OTHERS = 0
"""Row of the calls on paths that have no row of their own."""
_SPREAD_FUNCTION = np.uint64(2654435761)
"""Hash factor, 2^32 divided by the golden ratio: consecutive numbers land far apart."""
_SPREAD_PARENT = np.uint64(2246822519)
"""Hash factor, another odd number of as many bits; the products have no more than 63."""
_MIDDLE_BITS = np.uint64(16)
_FUNCTION_BITS = np.uint64(31)
_NUMBER_BITS = np.uint64(16)
_NUMBER = np.uint64((1 << 16) - 1)
_FREE = np.uint64(0)


@kernel
def child_of(parent: np.int64, function: int, rows: Table, slots: UInt64Array, count: Int64Array) -> np.int64:
    """Return the row of the path of ``parent``, or NONE, continued by ``function``; a new path gets a new
    row.

    Parameters
    ----------
    rows
        ``PATH`` rows: room for all paths; further ones are ``OTHERS``.
    slots
        uint64[a power of two], at least twice as many as rows: parent, function and row of a path, in 17, 31
        and 16 bits, so that no row is looked at; 0 if it is free.
    count
        Number of rows in use, int64[1].
    """
    mask = np.uint64(len(slots) - 1)
    above, innermost = np.uint64(parent + 1), np.uint64(function)
    key = above << _FUNCTION_BITS | innermost
    slot = (above * _SPREAD_PARENT ^ innermost * _SPREAD_FUNCTION) >> _MIDDLE_BITS & mask
    while slots[slot] != _FREE:
        if slots[slot] >> _NUMBER_BITS == key:
            return np.int64(slots[slot] & _NUMBER)
        slot = (slot + np.uint64(1)) & mask
    number = count[0]
    if number == len(rows):
        return np.int64(OTHERS)
    slots[slot] = key << _NUMBER_BITS | np.uint64(number)
    rows[number].parent = parent
    rows[number].function = function
    count[0] = number + 1
    return number


@kernel
def begin_path(row: Any) -> None:
    """Initialise a ``PATH`` row without calls, so that calls can be added to it."""
    row.exclusive_us = row.exclusive_squares = row.inclusive_us = row.inclusive_squares = 0.0
    row.exclusive_minimum_us = row.inclusive_minimum_us = np.inf
    row.exclusive_maximum_us = row.inclusive_maximum_us = -np.inf


@kernel
def merge_path(into: Any, row: Any) -> None:
    """Add the calls of one ``PATH`` row to another."""
    into.begun += row.begun
    into.spent_us += row.spent_us
    into.looked_us += row.looked_us
    into.asleep_us += row.asleep_us
    if row.calls == 0:
        return
    if into.calls == 0:
        begin_path(into)
    into.calls += row.calls
    into.exclusive_us += row.exclusive_us
    into.exclusive_squares += row.exclusive_squares
    into.exclusive_minimum_us = min(into.exclusive_minimum_us, row.exclusive_minimum_us)
    into.exclusive_maximum_us = max(into.exclusive_maximum_us, row.exclusive_maximum_us)
    into.inclusive_us += row.inclusive_us
    into.inclusive_squares += row.inclusive_squares
    into.inclusive_minimum_us = min(into.inclusive_minimum_us, row.inclusive_minimum_us)
    into.inclusive_maximum_us = max(into.inclusive_maximum_us, row.inclusive_maximum_us)


@kernel
def merge_paths(reported: Table, rows: Table, slots: UInt64Array, count: Int64Array) -> None:
    """Add the calls of ``reported``, ``PATH[n]``, each path behind its parent; see ``child_of``."""
    is_needed = zeros(len(reported))
    for at in range(len(reported) - 1, OTHERS, -1):
        if reported[at].calls != 0 or reported[at].begun != 0 or reported[at].spent_us != 0.0:
            is_needed[at] = 1
        if reported[at].looked_us != 0.0:
            is_needed[at] = 1
        if is_needed[at] != 0 and reported[at].parent != NONE:
            is_needed[reported[at].parent] = 1
    numbers = zeros(len(reported))
    for at in range(len(reported)):
        if at != OTHERS and is_needed[at] != 0:
            parent = reported[at].parent
            above = np.int64(NONE) if parent == NONE else numbers[parent]
            if above != OTHERS:
                numbers[at] = child_of(above, reported[at].function, rows, slots, count)
        merge_path(rows[numbers[at]], reported[at])


@kernel
def add_to_copy(before: Table, count: int, reported: Table, rows: Table) -> None:
    """Make the first n of ``rows`` those of ``before``, ``PATH[count]``, and add the calls of ``reported``.

    The rows of ``reported``, ``PATH[n]``, are of the same paths, and of new ones behind them.
    """
    for at in range(len(reported)):
        if at < count:
            rows[at] = before[at]
        else:
            rows[at].calls = rows[at].begun = 0
            rows[at].spent_us = rows[at].looked_us = rows[at].asleep_us = 0.0
        rows[at].parent = reported[at].parent
        rows[at].function = reported[at].function
        merge_path(rows[at], reported[at])
