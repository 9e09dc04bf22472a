"""CPU time and memory of a call."""

from __future__ import annotations

import os
import resource
from time import perf_counter_ns, thread_time_ns

from chimbuko.instrument.tracer.keptdescriptor import KeptDescriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from chimbuko.instrument.annotations.eventfile import Usage

_PAGE_KB = os.sysconf("SC_PAGE_SIZE") / 1000
_memory: KeptDescriptor | None = None

Reading = tuple[int, float, int]
"""What the clocks say at one moment: wall time in ns, user time of the process in s, and that of the calling
thread in ns, which is all of its CPU time."""


def read() -> Reading:
    """The clocks now, in the calling thread."""
    return perf_counter_ns(), resource.getrusage(resource.RUSAGE_SELF).ru_utime, thread_time_ns()


def since(before: Reading) -> Usage:
    """What was used since a reading in the same thread; of the process it is user time, of all threads."""
    begun_ns, user_s, thread_ns = before
    now_ns, user_now_s, thread_now_ns = read()
    share = 100.0 / max(now_ns - begun_ns, 1)
    return 1e9 * share * (user_now_s - user_s), share * (thread_now_ns - thread_ns), _resident_kb()


def _resident_kb() -> float:
    """Of the process; 0 where the system does not say."""
    global _memory
    try:
        if _memory is None or not _memory.is_ours():
            _memory = KeptDescriptor(os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC))
        return int(os.pread(_memory.number, 200, 0).split()[1]) * _PAGE_KB
    except OSError:
        return 0


def forget() -> None:
    """In a forked child the open file is its parent's."""
    global _memory
    if _memory is not None:
        _memory.close()
    _memory = None


os.register_at_fork(after_in_child=forget)
