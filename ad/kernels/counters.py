"""Reading counter values: statistics of each counter, and the state of the node, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.points import is_absurd
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Table
from chimbuko.core.kernels.declare import kernel
from chimbuko.core.kernels.merge import add_value
from chimbuko.core.traceschema import (
    COUNTER_NUMBER,
    COUNTER_PROGRAM,
    COUNTER_RANK,
    COUNTER_TIME,
    COUNTER_VALUE,
)

UNDECIDED = 0
"""Not known yet whether its values are those of a metric."""
EVENT = 1
"""Counts something at the moments when it happens."""
WATCHED = 2
"""Describes the node rather than a call."""
METRIC = 3
"""Has a row at every EXIT, with a running total."""
NUMBERED = 4
"""Its values are names and not quantities."""


@kernel
def read_counters(
    counters: npt.NDArray[np.uint64],
    rank: np.uint64,
    kinds: npt.NDArray[np.uint8],
    moments: npt.NDArray[np.float64],
    node_state: Table,
    places: npt.NDArray[np.int32],
    watched: int,
) -> tuple[int, bool]:
    """Add the values of a step to ``moments``, and note the latest ones of watched counters.

    Parameters
    ----------
    counters
        u8[n, 6] in TAU's layout. Rows of another rank, without a possible time or of a counter that has
        no kind are left out.
    kinds
        u1[counters].
    moments
        f8[counters, 7], added to.
    node_state
        ``COUNTER``: one row for each watched counter, in order of first appearance.
    places
        i4[counters]: which row of ``node_state`` is the counter's, or NONE.
    watched
        How many rows of ``node_state`` are in use. The new number is returned, and whether there were
        rows of undecided counters.
    """
    is_undecided = False
    for at in range(len(counters)):
        number = counters[at, COUNTER_NUMBER]
        if (
            counters[at, COUNTER_PROGRAM] != 0
            or counters[at, COUNTER_RANK] != rank
            or number >= np.uint64(len(kinds))
        ):
            continue
        kind = kinds[number]
        if kind in (METRIC, NUMBERED) or is_absurd(counters[at, COUNTER_TIME]):
            continue
        is_undecided |= kind == UNDECIDED
        add_value(moments[number], np.float64(counters[at, COUNTER_VALUE]))
        if kind == WATCHED:
            if places[number] == NONE:
                places[number] = watched
                watched += 1
            state = node_state[places[number]]
            state.time_us = counters[at, COUNTER_TIME]
            state.value = counters[at, COUNTER_VALUE]
            state.counter = number
            state.step = NONE
            state.row = NONE
    return watched, is_undecided
