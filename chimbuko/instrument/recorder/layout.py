"""Layout of the files that the library writes and the drain reads, as in ``library/layout.h``."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

PROCESS_MAGIC: Final = b"CHIMPROC"
RING_MAGIC: Final = b"CHIMRING"
COUNTS_MAGIC: Final = b"CHIMMSGS"
VERSION: Final = 10

NAMES: Final = 2048
NAME_BYTES: Final = 256
COMMUNICATORS: Final = 4096
FUNCTIONS: Final = 4096
"""Number of functions that are told apart; row 0 is for all others."""
MAPS_BYTES: Final = 1 << 16
PATH_BYTES: Final = 1024
BACKTRACE: Final = 64
FIRST_QUEUE: Final = 1 << 30
"""Number from which those of queues of GPUs stand for the ids of threads."""
DEPTH: Final = 1024
LEFT_EARLIER: Final = 1
"""Request of an EXIT of a call that ended with the event of its lane that came before."""
OBSTACLE_BYTES: Final = 128
LARGEST_RING_EVENTS: Final = 1 << 24

NAMED: Final = 1 << 63
"""Bit of a key that says that the rest is the number of a name, and not an address."""
OPENMP: Final = 1 << 62
"""Bit of a key of a construct of OpenMP: its kind and the place behind the call of the runtime follow."""
CONSTRUCT_SHIFT: Final = 56
CONSTRUCTS: Final = (
    *("", "parallel", "loop", "sections", "single", "workshare", "barrier", "critical", "lock", "ordered"),
    *("task", "taskwait", "target"),
)
"""Names of the constructs of OpenMP, by their numbers."""
OPENMP_COMMUNICATOR: Final = COMMUNICATORS - 1
"""Row of the table of communicators that stands for the barriers of all teams of threads."""


class Kind(IntEnum):
    """Kind of an event."""

    ENTRY = 1
    EXIT = 2
    SEND = 3
    RECEIVE = 4
    COUNTER = 5
    OPERATION = 6
    LANE = 7


EVENT: Final = np.dtype(
    [
        ("time_ns", "<i8"),
        ("kind", "u1"),
        ("operation", "u1"),
        ("communicator", "<u2"),
        ("peer", "<i4"),
        ("value", "<u8"),
        ("tag", "<i4"),
        ("request", "<u4"),
    ]
)
"""Event in a ring; ``value`` is the key of a call, the bytes of a message, or the double of a counter."""

COMMUNICATOR: Final = np.dtype([("identity", "<u8"), ("size", "<u4"), ("rank", "<i4")])

CRASH: Final = np.dtype(
    [
        ("signal", "<i4"),
        ("thread", "<i4"),
        ("address", "<u8"),
        ("frames", "<u4"),
        ("reserved", "<u4"),
        ("backtrace", "<u8", (BACKTRACE,)),
    ]
)

ENDING: Final = np.dtype(
    [
        ("how", "<u4"),
        ("code", "<i4"),
        ("thread", "<i4"),
        ("depth", "<u4"),
        ("stack", "<u8", (BACKTRACE,)),
    ]
)


class End(IntEnum):
    """How a process ended, or was about to end."""

    CALLED_ABORT = 1
    ENDED_IN_MPI = 2


FUNCTION_ROW: Final = np.dtype(
    [("key", "<u8"), ("out_ns", "<i8"), ("uncounted_ns", "<i8"), ("counted_ns", "<i8"), ("samples", "<u8")]
)
"""Function that is recorded or left out: the time at which it was left out first, those from which and until
which its calls were not counted, 0 for none, and how often they were counted for a moment between these."""

PROCESS: Final = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("bytes", "<u4"),
        ("pid", "<u4"),
        ("parent", "<u4"),
        ("world_rank", "<i4"),
        ("world_size", "<i4"),
        ("clock_offset_ns", "<i8"),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("is_forked", "<u4"),
        ("is_finalized", "<u4"),
        ("thread_count", "<u4"),
        ("name_count", "<u4"),
        ("communicator_count", "<u4"),
        ("deciders", "<u4"),
        ("is_prepared", "<u4"),
        ("reserved", "<u4"),
        ("threads_without_ring", "<u8"),
        ("lost_requests", "<u8"),
        ("unseen_tasks", "<u8"),
        ("calls_without_caller", "<u8"),
        ("stored", "<u8"),
        ("drained_ns", "<i8"),
        ("overhead", "<f8"),
        ("executable", f"S{PATH_BYTES}"),
        ("maps", f"S{MAPS_BYTES}"),
        ("crash", CRASH),
        ("ending", ENDING),
        ("obstacle", f"S{OBSTACLE_BYTES}"),
        ("gpu", f"S{OBSTACLE_BYTES}"),
        ("functions", FUNCTION_ROW, (FUNCTIONS,)),
        ("communicators", COMMUNICATOR, (COMMUNICATORS,)),
        ("names", f"S{NAME_BYTES}", (NAMES,)),
    ]
)

RING: Final = np.dtype(
    {
        "names": [
            *("magic", "version", "capacity", "header_bytes", "thread", "tid", "description"),
            *("written", "dropped_calls", "dropped_rows", "too_deep", "depth", "lanes"),
            *("strayed_calls", "interrupting_calls", "stackless_calls"),
            *("read", "left_out", "dropped", "stack", "entry_ns"),
        ],
        "formats": [
            *("S8", "<u4", "<u4", "<u4", "<i4", "<u4", "<u4"),
            *("<u8", "<u8", "<u8", "<u8", "<u4", "<u4"),
            *("<u8", "<u8", "<u8"),
            *("<u8", ("<u8", (FUNCTIONS,)), ("<u8", (FUNCTIONS,)), ("<u8", (DEPTH,)), ("<i8", (DEPTH,))),
        ],
        "offsets": [
            *(0, 8, 12, 16, 20, 24, 28, 64, 72, 80, 88, 96, 100, 104, 112, 120, 128),
            *(192, 192 + 8 * FUNCTIONS, 192 + 16 * FUNCTIONS, 192 + 8 * (2 * FUNCTIONS + DEPTH)),
        ],
        "itemsize": 192 + 8 * (2 * FUNCTIONS + 4 * DEPTH) + 16 * FUNCTIONS,
    }
)

COUNTS: Final = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("world_rank", "<i4"),
        ("world_size", "<u4"),
        ("reserved", "<u4"),
        ("left_out", "<u8"),
        ("executable", f"S{PATH_BYTES}"),
    ]
)
"""Head of a file of counted messages; a ``TRAFFIC`` for each rank of the world follows."""

TRAFFIC: Final = np.dtype(
    [("sent_count", "<u8"), ("sent_bytes", "<u8"), ("received_count", "<u8"), ("received_bytes", "<u8")]
)
