"""Collecting the open calls of a stream, compiled: it is done after every step."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Table
from chimbuko.core.kernels.declare import kernel

OPEN = np.dtype(
    [
        ("entry_us", np.uint64),
        ("child_us", np.uint64),  # inclusive time of its completed direct children
        ("step", np.int32),  # with row the call's id
        ("row", np.int32),
        ("parent_step", np.int32),
        ("parent_row", np.int32),
        ("function", np.int32),  # the stream's own timer id
        ("thread", np.int32),  # TAU's id
        ("depth", np.int32),
        ("children", np.int32),
        ("messages", np.int32),
        ("doubts", np.uint8),
    ],
    align=True,
)
"""An open call."""


@kernel
def gather_open(calls: Table, threads: Table, thread_count: int, room: Table) -> int:
    """Write the open calls into ``room`` OPEN[n]: thread by thread, of each the outermost first.

    Where there is no room for all, each thread gets the same number of its innermost calls.

    Returns how many were written.
    """
    if thread_count == 0:
        return 0
    most = max(len(room) // thread_count, 1)
    count = 0
    for number in range(thread_count):
        depth = 0
        call = threads[number].top
        while call != NONE and depth < most:
            depth += 1
            call = calls[call].parent
        depth = min(depth, len(room) - count)
        call = threads[number].top
        for at in range(count + depth - 1, count - 1, -1):
            parent = calls[call].parent
            room[at].entry_us = calls[call].entry
            room[at].child_us = calls[call].child_us
            room[at].step = calls[call].step
            room[at].row = calls[call].row
            room[at].parent_step = calls[parent].step if parent != NONE else NONE
            room[at].parent_row = calls[parent].row if parent != NONE else NONE
            room[at].function = calls[call].function
            room[at].thread = threads[number].id
            room[at].depth = calls[call].depth
            room[at].children = calls[call].children
            room[at].messages = calls[call].messages
            room[at].doubts = calls[call].doubts
            call = parent
        count += depth
    return count
