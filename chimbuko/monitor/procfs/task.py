"""Files of one thread or process: ``stat``, ``status``, ``schedstat``, ``io``."""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from chimbuko.monitor.procfs.numbers import LARGEST, counter, counter_behind, parse_cpulist

_FIELDS_BEHIND_NAME = 37
"""Fields 3 to 39 of proc(5); the last of them is the processor."""
_NUMBERS = itemgetter(1, 7, 9, 11, 12, 19, 36)


class TaskStat(NamedTuple):
    """Values of ``stat`` of a thread or process."""

    tid: int
    name: str
    state: str
    """A letter: R runs or could, S and I sleep, D waits for a device, T and t are stopped, Z and X have
    ended."""
    parent: int
    minor_faults: int
    major_faults: int
    user_ticks: int
    system_ticks: int
    start_ticks: int
    """Since the machine booted. A number that is used again has another one."""
    processor: int
    """Core on which it ran last."""


def parse_stat(data: bytes) -> TaskStat | None:
    """``/proc/PID/stat`` or ``/proc/PID/task/TID/stat``; None if it is damaged.

    Fields are counted from the last ``)``, since a name may hold blanks and parentheses itself.
    """
    opening, closing = data.find(b" ("), data.rfind(b") ")
    fields = data[closing + 2 :].split(None, _FIELDS_BEHIND_NAME)
    if opening < 0 or closing < opening or len(fields) < _FIELDS_BEHIND_NAME:
        return None
    try:
        tid = int(data[:opening])
        parent, minor, major, user, system, start, processor = map(int, _NUMBERS(fields))
    except ValueError:
        return None
    # Bit by bit: one that is negative, or too large, makes all of it so.
    together = tid | parent | minor | major | user | system | start | processor
    if not 0 <= together <= LARGEST or len(fields[0]) != 1:
        return None
    name = data[opening + 2 : closing].decode(errors="replace")
    state = fields[0].decode(errors="replace")
    return TaskStat(tid, name, state, parent, minor, major, user, system, start, processor)


def parse_ended_ticks(data: bytes) -> int:
    """CPU time of the processes that a process has started and seen to their end, by its ``stat``; 0 where
    that is damaged.
    """
    fields = data[data.rfind(b") ") + 2 :].split(None, _FIELDS_BEHIND_NAME)[13:15]
    return sum(map(int, fields)) if len(fields) == 2 and all(map(bytes.isdigit, fields)) else 0


class TaskStatus(NamedTuple):
    """Values of ``status`` of a thread, beside those of ``stat``."""

    voluntary: int
    """Number of times it gave up its core."""
    involuntary: int
    """Number of times its core was taken from it."""
    cpus: str
    """Cores on which it may run, as ``0-3,8``."""


def parse_status(data: bytes) -> TaskStatus | None:
    """``/proc/PID/task/TID/status``; None if a line is missing or damaged."""
    tail = data.rpartition(b"\nvoluntary_ctxt_switches:\t")[2]
    voluntary, _, tail = tail.partition(b"\nnonvoluntary_ctxt_switches:\t")
    involuntary = tail.partition(b"\n")[0]
    cpus = _value_of(data, b"\nCpus_allowed_list:\t")
    if not (voluntary.isdigit() and involuntary.isdigit() and cpus) or len(voluntary + involuntary) > 40:
        return None
    return TaskStatus(int(voluntary), int(involuntary), cpus.decode(errors="replace"))


def allowed_cpus(data: bytes) -> tuple[int, ...]:
    """Return the cores on which a process or thread may run, by its ``status``; empty if that does not
    say.
    """
    return parse_cpulist(_value_of(data, b"\nCpus_allowed_list:\t").decode(errors="replace"))


def parse_thread_group(data: bytes) -> int | None:
    """Return the process that a number is a thread of, by its ``status``: of a process itself it is its
    own.
    """
    return counter(_value_of(data, b"\nTgid:\t"))


def _value_of(data: bytes, name: bytes) -> bytes:
    # From the end, near which they stand. A program's name holds no line's end, since the kernel escapes it.
    begin = data.rfind(name)
    if begin < 0:
        return b""
    begin += len(name)
    end = data.find(b"\n", begin)
    return data[begin : end if end >= 0 else len(data)]


class ProcessMemory(NamedTuple):
    """Memory of a process by its ``status``."""

    resident_bytes: int
    peak_bytes: int
    swapped_bytes: int = 0


def parse_process_memory(data: bytes) -> ProcessMemory:
    """``VmRSS``, ``VmHWM`` and ``VmSwap`` of ``/proc/PID/status``; 0 if they are missing."""
    resident = 1024 * (counter_behind(data, b"\nVmRSS:") or 0)
    peak = max(1024 * (counter_behind(data, b"\nVmHWM:") or 0), resident)
    return ProcessMemory(resident, peak, 1024 * (counter_behind(data, b"\nVmSwap:") or 0))


def parse_thread_count(data: bytes) -> int | None:
    """Return the number of threads of a process, by its ``status``."""
    return counter_behind(data, b"\nThreads:")


class SchedStat(NamedTuple):
    """Values of ``schedstat`` of a thread."""

    ran_ns: int
    waited_ns: int
    """While it could have run, and its core was another's; counted when the wait is over."""
    slices: int
    """Number of times it was put on a core."""


def parse_schedstat(data: bytes) -> SchedStat | None:
    """``/proc/PID/task/TID/schedstat``; None if it is damaged, or the kernel does not count."""
    try:
        ran, waited, times = data.split(None, 3)
        ran_ns, waited_ns, slices = int(ran), int(waited), int(times)
    except ValueError:
        return None
    return SchedStat(ran_ns, waited_ns, slices) if 0 <= ran_ns | waited_ns | slices <= LARGEST else None


def parse_migrations(data: bytes) -> int | None:
    """Return how often a thread was moved to another core, by its ``sched``; None if that does not say."""
    found = data.find(b"\nse.nr_migrations")
    return counter(data[found + 1 :].partition(b"\n")[0].partition(b":")[2].strip()) if found >= 0 else None


class ProcessIO(NamedTuple):
    """Bytes that a process has read from and written to storage."""

    read_bytes: int
    written_bytes: int


def parse_io(data: bytes) -> ProcessIO | None:
    """``/proc/PID/io``; None if it is damaged."""
    read, written = counter_behind(data, b"\nread_bytes:"), counter_behind(data, b"\nwrite_bytes:")
    return None if read is None or written is None else ProcessIO(read, written)
