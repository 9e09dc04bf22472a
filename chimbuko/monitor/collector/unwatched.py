"""Processes that are not watched: which of them ran, and where."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from chimbuko.monitor.procfs.task import TaskStat, parse_ended_ticks, parse_stat
from chimbuko.monitor.samples.nodebatch import Rows
from chimbuko.monitor.samples.rows import OTHER
from chimbuko.monitor.sampling.ownrun import OwnRun
from chimbuko.monitor.sampling.procreader import ProcReader, read_once

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
LEAST_US = 20_000
"""Least CPU time in µs since a process was reported last: the kernel counts it in ticks of 10 ms."""
FRESH_US = 1_000_000
"""Age in µs of CPU time that is forgotten where it was not reported: the next report would seem to be spread
over all that time.
"""
MOST_SUSPECTS = 6
RUNNING = "R"


class _Seen(NamedTuple):
    data: bytes
    """Text as it was read, which stays the same while a process sleeps."""
    stat: TaskStat
    time_us: int
    ended_ticks: int
    """Ticks of its children that are over, without what is reported of these themselves."""

    @property
    def ran_us(self) -> int:
        """All that."""
        return (self.stat.user_ticks + self.stat.system_ticks + self.ended_ticks) * TICK_US


class Others:
    """Finds what other processes of the node did from one look to the next.

    With what a process ran counts what those ran that it started and that were over before anybody saw them,
    as those of a shell's loop.
    """

    def __init__(self, files: ProcReader) -> None:
        self._files = files
        self._run = OwnRun()
        self._last: dict[int, _Seen] = {}
        self._suspects: dict[int, tuple[int, int]] = {}
        """For each process that ran last: the time at which it was found, and how long it had run, in µs."""
        self._boot_us = 0
        self._ancestors: dict[int, set[int]] = {}
        """Ancestors of each watched process: what they have started belongs to the program."""

    def look(self, time_us: int, watched: Collection[int]) -> Rows:
        """Return OTHER rows of processes that ran since the last look, or since they began."""
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()} - set(watched)
        for pid in watched:
            if pid not in self._ancestors:
                self._ancestors[pid] = _ancestors(pid)
        for pid in self._last.keys() - pids:
            self._end(pid)
        rows, self._last = self._look(time_us, pids, watched)
        running = sorted(self._suspects.items(), key=lambda one: one[1], reverse=True)[:MOST_SUSPECTS]
        self._suspects = {pid: ran for pid, ran in running if pid in self._last}
        return rows

    def look_again(self, time_us: int, watched: Collection[int]) -> Rows:
        """Return OTHER rows of processes that ran at the last look, as often as ranks are looked at."""
        rows, now = self._look(time_us, self._suspects.keys() & self._last.keys(), watched)
        self._last |= now
        return rows

    def _look(
        self, time_us: int, pids: Collection[int], watched: Collection[int]
    ) -> tuple[Rows, dict[int, _Seen]]:
        is_first = not self._last
        now: dict[int, _Seen] = {}
        rows = []
        # A process before those that it started: of one that ends meanwhile it has not counted the time yet.
        read = {pid: self._files.read(_path(pid)) for pid in sorted(pids)}
        stats = {pid: parse_stat(data) for pid, data in read.items() if not self._is_same(pid, data)}
        for pid, stat in stats.items():
            if stat is None or self._is_another(pid, stat):
                self._end(pid)
        # Who has started the program sees that to its end, and the first process those without parents.
        counting = set(pids).difference({1}, *self._ancestors.values())
        for pid, data in read.items():
            before = self._last.get(pid)
            if before is not None and pid not in stats:
                now[pid] = before._replace(time_us=time_us)
                continue
            stat = stats[pid]
            if stat is None:
                continue
            ended_ticks = 0 if before is None else before.ended_ticks
            if pid in counting:
                ended_ticks = parse_ended_ticks(data)
            now[pid] = seen = _Seen(data, stat, time_us, ended_ticks)
            is_new = before is None
            if is_first and is_new:
                continue
            if before is None:
                nothing = stat._replace(user_ticks=0, system_ticks=0)
                before = _Seen(data, nothing, self._since_us(stat, time_us), 0)
            ran_us = seen.ran_us - before.ran_us
            if ran_us >= LEAST_US:
                length_us = max(1, time_us - before.time_us)
                name = self._run.name_in_samples(stat, self._stat_of, watched)
                who = name.encode()[:16], user_of(pid).encode()[:16]
                rows.append((before.time_us, length_us, pid, stat.processor, ran_us, *who))
            elif ran_us < 0 or time_us - before.time_us <= FRESH_US:
                # It counts with what it runs until the next look.
                now[pid] = before._replace(data=data, stat=before.stat._replace(parent=stat.parent))
            if is_new or stat.state == RUNNING or ran_us >= LEAST_US:
                self._suspects[pid] = time_us, ran_us
        return np.array(rows, OTHER), now

    def _stat_of(self, pid: int) -> TaskStat | None:
        """Return what a process was when it was looked at last; now, where it is new, or watched."""
        seen = self._last.get(pid)
        return seen.stat if seen is not None else parse_stat(read_once(_path(pid)))

    def _is_same(self, pid: int, data: bytes) -> bool:
        before = self._last.get(pid)
        return before is not None and before.data == data

    def _is_another(self, pid: int, stat: TaskStat) -> bool:
        """Whether a number is used again."""
        before = self._last.get(pid)
        return before is not None and before.stat.start_ticks != stat.start_ticks

    def _end(self, pid: int) -> None:
        """Note that a process has ended, so that its time is not counted again with its parent's."""
        self._files.forget(_path(pid))
        ended = self._last.pop(pid, None)
        parent = self._last.get(ended.stat.parent) if ended is not None else None
        if ended is not None and parent is not None:
            known_ticks = parent.ended_ticks + ended.ran_us // TICK_US
            self._last[ended.stat.parent] = parent._replace(ended_ticks=known_ticks)

    def _since_us(self, stat: TaskStat, time_us: int) -> int:
        """Return the time at which a process began."""
        self._boot_us = self._boot_us or time_us - _uptime_us()
        return min(time_us, self._boot_us + stat.start_ticks * TICK_US)


def _path(pid: int) -> str:
    return f"/proc/{pid}/stat"


def _ancestors(pid: int) -> set[int]:
    """Return the process that started another one, the one that started that, and so on."""
    found: set[int] = set()
    stat = parse_stat(read_once(_path(pid)))
    while stat is not None and stat.parent > 0 and stat.parent not in found:
        found.add(stat.parent)
        stat = parse_stat(read_once(_path(stat.parent)))
    return found


def _uptime_us() -> int:
    with open("/proc/uptime", "rb") as file:
        return int(float(file.read().split()[0]) * 1e6)


def user_of(pid: int) -> str:
    """Return the user of a process; empty if the process is gone."""
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
