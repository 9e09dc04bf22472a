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
"""Reading of the clocks: wall time in ns, user time of the process in s, CPU time of the thread in ns."""


def read() -> Reading:
    """Read the clocks, in the calling thread."""
    return perf_counter_ns(), resource.getrusage(resource.RUSAGE_SELF).ru_utime, thread_time_ns()


def since(before: Reading) -> Usage:
    """Return the usage since a reading in the same thread; that of the process is its user time."""
    begun_ns, user_s, thread_ns = before
    now_ns, user_now_s, thread_now_ns = read()
    share = 100.0 / max(now_ns - begun_ns, 1)
    return 1e9 * share * (user_now_s - user_s), share * (thread_now_ns - thread_ns), _resident_kb()


def _resident_kb() -> float:
    """Return the resident memory of the process in 1,000 bytes; 0 where the system does not say."""
    global _memory
    try:
        if _memory is None or not _memory.is_ours():
            _memory = KeptDescriptor(os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC))
        return int(os.pread(_memory.number, 200, 0).split()[1]) * _PAGE_KB
    except OSError:
        return 0


def forget() -> None:
    """Close the open file in a forked child: it describes the parent."""
    global _memory
    if _memory is not None:
        _memory.close()
    _memory = None


os.register_at_fork(after_in_child=forget)
