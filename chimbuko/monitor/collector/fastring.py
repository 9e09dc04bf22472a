"""Fast samples of a few threads: read as bytes, and understood only where they are wanted."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass

import numpy as np

from chimbuko.monitor.procfs.task import TaskStat, parse_schedstat, parse_stat
from chimbuko.monitor.samples.nodebatch import Rows
from chimbuko.monitor.samples.rows import NO_CALL, THREAD
from chimbuko.monitor.sampling.procreader import ProcReader

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
MOST_READINGS = 16_384
"""Some 400 bytes each: 60 s of five threads at 20 ms."""
MUCH_WAITED = 0.2
LONGEST_US = 500_000
"""Between two readings of a thread that make a row: it was not looked at in between."""
FILES = ("stat", "schedstat", "syscall")


@dataclass(frozen=True, slots=True)
class _Reading:
    """A thread at one moment."""

    time_us: int
    tid: int
    pid: int
    stat: bytes
    sched: bytes
    call: bytes


@dataclass(slots=True)
class _Pair:
    """Two readings of a thread, one after the other."""

    before: _Reading
    now: _Reading
    is_taken: bool = False


class FastRing:
    """Reads threads, and remembers the newest readings."""

    def __init__(self, files: ProcReader, capacity: int = MOST_READINGS) -> None:
        self._files = files
        self._pairs: deque[_Pair] = deque(maxlen=capacity)
        self._last: dict[int, _Reading] = {}

    def read(self, time_us: int, threads: dict[int, int]) -> bool:
        """Look at threads, by their number and that of their process.

        Returns whether one of them waited for a core for ``MUCH_WAITED`` of the time since the last look.
        """
        read = self._files.read
        last, self._last = self._last, {}
        has_waited = False
        for tid, pid in threads.items():
            folder = f"/proc/{pid}/task/{tid}/"
            stat = read(folder + "stat")
            if not stat:
                continue
            sched = read(folder + "schedstat")
            # What it sleeps in can only be seen while it does.
            is_asleep = stat[stat.rfind(b") ") + 2 :][:1] in (b"S", b"D")
            call = read(folder + "syscall") if is_asleep else b""
            now = self._last[tid] = _Reading(time_us, tid, pid, stat, sched, call)
            before = last.get(tid)
            if before is not None:
                self._pairs.append(_Pair(before, now))
                has_waited = has_waited or _has_waited(before, now)
        return has_waited

    def forget(self, pid: int, tid: int) -> None:
        """A thread is not looked at any longer."""
        for name in FILES:
            self._files.forget(f"/proc/{pid}/task/{tid}/{name}")

    def take(self, begin_us: int, end_us: int) -> Rows:
        """THREAD rows of an interval that were not taken before."""
        rows = []
        for pair in self._pairs:
            if pair.is_taken or pair.now.time_us <= begin_us or pair.before.time_us >= end_us:
                continue
            pair.is_taken = True
            row = _row(pair.before, pair.now)
            if row is not None:
                rows.append(row)
        return np.array(rows, THREAD)


def _row(before: _Reading, now: _Reading) -> tuple[object, ...] | None:
    length_us = now.time_us - before.time_us
    first, second = parse_stat(before.stat), parse_stat(now.stat)
    if first is None or second is None or first.start_ticks != second.start_ticks:
        return None
    if not 0 < length_us <= LONGEST_US:
        return None
    times = parse_schedstat(before.sched), parse_schedstat(now.sched)
    user_us, system_us = _ticks(first, second)
    ran_us, waited_us = user_us + system_us, 0
    if times[0] is not None and times[1] is not None:
        ran_us = max(0, times[1].ran_ns - times[0].ran_ns) // 1000
        waited_us = max(0, times[1].waited_ns - times[0].waited_ns) // 1000
    return (
        *(before.time_us, length_us, now.pid, now.tid, ran_us, waited_us, user_us, system_us),
        max(0, second.minor_faults - first.minor_faults),
        max(0, second.major_faults - first.major_faults),
        *(0, 0, int(first.processor != second.processor), second.processor),
        *(system_call(now.call), second.state.encode()),
    )


def _ticks(first: TaskStat, second: TaskStat) -> tuple[int, int]:
    user, system = second.user_ticks - first.user_ticks, second.system_ticks - first.system_ticks
    return max(0, user) * TICK_US, max(0, system) * TICK_US


def system_call(data: bytes) -> int:
    """Number of the system call that a thread is in, by ``syscall``; ``NO_CALL`` where it is not known."""
    number = data.split(b" ", 1)[0]
    return int(number) if number.isdigit() and len(number) < 5 else NO_CALL


def _has_waited(before: _Reading, now: _Reading) -> bool:
    if before.sched == now.sched:
        return False
    times = parse_schedstat(before.sched), parse_schedstat(now.sched)
    if times[0] is None or times[1] is None:
        return False
    return times[1].waited_ns - times[0].waited_ns > MUCH_WAITED * 1000 * (now.time_us - before.time_us)
