"""CPU time and memory of a call."""

from __future__ import annotations

import os
import resource
import time
from typing import NamedTuple

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_memory = -1


class Usage(NamedTuple):
    """Between two moments."""

    cpu_percent: float
    """User time of the process, of the wall time: the sum over its threads."""
    thread_cpu_percent: float
    """CPU time of the calling thread, of the wall time."""
    memory_kb: float
    """Resident memory of the process at the second moment, in 1,000 bytes."""


class Reading(NamedTuple):
    """What the clocks say at one moment."""

    wall_ns: int
    user_s: float
    thread_ns: int


def read() -> Reading:
    """The clocks now, in the calling thread."""
    user_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    return Reading(time.perf_counter_ns(), user_s, time.thread_time_ns())


def since(before: Reading) -> Usage:
    """What was used since a reading in the same thread."""
    now = read()
    wall_ns = max(now.wall_ns - before.wall_ns, 1)
    return Usage(
        100e9 * (now.user_s - before.user_s) / wall_ns,
        100.0 * (now.thread_ns - before.thread_ns) / wall_ns,
        _resident_bytes() / 1000,
    )


def _resident_bytes() -> int:
    global _memory
    if _memory < 0:
        _memory = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    return int(os.pread(_memory, 200, 0).split()[1]) * _PAGE_BYTES


def forget() -> None:
    """In a forked child the open file is its parent's."""
    global _memory
    if _memory >= 0:
        os.close(_memory)
        _memory = -1


os.register_at_fork(after_in_child=forget)
