"""Kind of time: what a thread did, by the name of the function in which it was."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from chimbuko.core.calls.waiting import Waits, is_communication, waits_for_gpu, waits_in

AWAIT = "await "
"""Beginning of the names under which coroutines that await are recorded."""
_IO = re.compile(
    r"(MPI_File_\w+|p?(read|write)v?(64)?|open(64)?|close|f(data)?sync|f(open(64)?|close|read|write|flush|puts|gets))"
    r"( ?\(\))?$"
)
"""Names of functions that read and write files, as libraries have them: those of a program have a place."""


class TimeKind(IntEnum):
    """Kind of what a function does with its own time; the numbers are the order in which steps have them."""

    COMPUTING = 0
    """Computing, or asleep where nothing else says so."""
    MPI = 1
    IO = 2
    GPU = 3
    """Waiting for a GPU."""
    AWAITING = 4
    """Awaiting, of a coroutine, or of a thread for others of its team."""


@lru_cache(maxsize=4096)
def time_kind(function: str) -> TimeKind:
    """Return the kind of the time that is spent in a function's own code."""
    if function.startswith(AWAIT) or waits_in(function) is Waits.THREADS:
        return TimeKind.AWAITING
    if _IO.match(function):
        return TimeKind.IO
    if is_communication(function):
        return TimeKind.MPI
    return TimeKind.GPU if waits_for_gpu(function) else TimeKind.COMPUTING
