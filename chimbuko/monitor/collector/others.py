"""Processes that are not watched: which of them ran, and where."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from chimbuko.monitor.procfs.task import TaskStat, parse_stat
from chimbuko.monitor.samples.nodebatch import Rows
from chimbuko.monitor.samples.rows import OTHER
from chimbuko.monitor.sampling.procreader import ProcReader

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
LEAST_US = 20_000
"""Of CPU time since a process was reported last: the kernel counts it in ticks of 10 ms."""
FRESH_US = 1_000_000
"""What it ran longer ago, and is not reported, is forgotten: what it runs next would seem to be spread over
all that time."""
MOST_SUSPECTS = 6
RUNNING = "R"


class _Seen(NamedTuple):
    data: bytes
    """As it was read: of a process that sleeps it stays the same."""
    stat: TaskStat
    time_us: int


class Others:
    """Finds what other processes of the node did from one look to the next."""

    def __init__(self, files: ProcReader) -> None:
        self._files = files
        self._last: dict[int, _Seen] = {}
        self._suspects: dict[int, tuple[int, int]] = {}
        """When a process was found to run, or new, and how long it had run, in µs, of those that did last."""
        self._boot_us = 0

    def look(self, time_us: int, watched: Collection[int]) -> Rows:
        """OTHER rows of processes that ran since the last look, or since they began."""
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()} - set(watched)
        rows, now = self._look(time_us, pids)
        for pid in self._last.keys() - now.keys():
            self._files.forget(_path(pid))
        self._last = now
        running = sorted(self._suspects.items(), key=lambda one: one[1], reverse=True)[:MOST_SUSPECTS]
        self._suspects = {pid: ran for pid, ran in running if pid in now}
        return rows

    def look_again(self, time_us: int) -> Rows:
        """The same of those only that were found to run last: they may be looked at as often as ranks."""
        rows, now = self._look(time_us, self._suspects.keys() & self._last.keys())
        self._last |= now
        return rows

    def _look(self, time_us: int, pids: Collection[int]) -> tuple[Rows, dict[int, _Seen]]:
        is_first = not self._last
        now: dict[int, _Seen] = {}
        rows = []
        for pid in pids:
            data = self._files.read(_path(pid))
            before = self._last.get(pid)
            if before is not None and before.data == data:
                now[pid] = before._replace(time_us=time_us)
                continue
            stat = parse_stat(data)
            if stat is None:
                continue
            now[pid] = _Seen(data, stat, time_us)
            is_new = before is None or before.stat.start_ticks != stat.start_ticks
            if is_first and is_new:
                continue
            if before is None or is_new:
                nothing = stat._replace(user_ticks=0, system_ticks=0)
                before = _Seen(data, nothing, self._since_us(stat, time_us))
            ran_us = _ran_us(stat) - _ran_us(before.stat)
            if ran_us >= LEAST_US:
                length_us = max(1, time_us - before.time_us)
                who = stat.name.encode()[:16], user_of(pid).encode()[:16]
                rows.append((before.time_us, length_us, pid, stat.processor, ran_us, *who))
            elif time_us - before.time_us <= FRESH_US:
                # It counts with what it runs until the next look.
                now[pid] = before._replace(data=data)
            if is_new or stat.state == RUNNING or ran_us >= LEAST_US:
                self._suspects[pid] = time_us, ran_us
        return np.array(rows, OTHER), now

    def _since_us(self, stat: TaskStat, time_us: int) -> int:
        """When a process began."""
        self._boot_us = self._boot_us or time_us - _uptime_us()
        return min(time_us, self._boot_us + stat.start_ticks * TICK_US)


def _ran_us(stat: TaskStat) -> int:
    return (stat.user_ticks + stat.system_ticks) * TICK_US


def _path(pid: int) -> str:
    return f"/proc/{pid}/stat"


def _uptime_us() -> int:
    with open("/proc/uptime", "rb") as file:
        return int(float(file.read().split()[0]) * 1e6)


def user_of(pid: int) -> str:
    """Whose a process is; empty where it is gone."""
    try:
        return _name_of(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return ""


@lru_cache(maxsize=256)
def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
