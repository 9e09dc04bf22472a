"""Fast looks at the threads that run, and at other processes that may take their cores."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Collection, Container, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from chimbuko.monitor.collector.batchmaker import Costs
from chimbuko.monitor.collector.fastring import FastRing, KeptRows, ThreadLook
from chimbuko.monitor.collector.lossfinder import Stretch
from chimbuko.monitor.collector.threadreading import Reading
from chimbuko.monitor.procfs.task import TaskStat, parse_ended_ticks, parse_stat
from chimbuko.monitor.sampling.nodebatch import Awaited
from chimbuko.monitor.sampling.ownrun import OwnRun
from chimbuko.monitor.sampling.procreader import ProcReader, read_once
from chimbuko.monitor.sampling.rows import OTHER, Rows

# Processes that are not watched: which of them ran, and where.


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


# Pace of fast looks at ranks, and of those at other processes, by what they cost. No I/O, no clock.


FAST_S = 0.02
FAST_SHARE, AGAIN_SHARE = 0.0015, 0.0005
"""Shares of a core that fast samples of ranks, and of those who took their cores last, may take. Where a look
costs more, looks are further apart. Together they are 2 ms in a second.
"""
SLOWEST_S = 0.25
IDLE_S = 0.25
"""While no rank runs."""
OTHERS_S, OTHERS_SOONEST_S, OTHERS_SHARE = 10.0, 0.1, 0.005
"""Other processes are looked for so often, and where a rank waits for its core; as far as that keeps within a
share of a core."""
SPARED_US = 1_000_000
"""Looks at others that were not taken in so long a time may follow each other at once: a short burst is over
before the next one would be due."""


class Waits(Enum):
    """State of the ranks' waits for their cores."""

    NONE = "none"
    """No rank has waited since all other processes were looked at."""
    NOW = "now"
    """A rank waited before the last look."""
    OVER = "over"
    """A rank has waited, but not before the last look, and all others have not been looked at since."""


class Look(Enum):
    """Instruction: which other processes to look at."""

    NOBODY = "nobody"
    ALL = "all"
    RUNNING = "running"
    """Only processes that ran at the last look."""


class LookPace:
    """Pace of the looks at ranks, and at other processes with them.

    ::

                 waited              did not wait
        NONE ──────────────▶ NOW ────────────────────▶ OVER
          ▲                   ▲         waited          │ │
          │                   └─────────────────────────┘ │
          └───────────────────────────────────────────────┘ all others looked at

    Where nobody waits, all others are due every ``OTHERS_S``; else as soon as their cost allows, and those
    that ran last are, too. Who takes the core is looked at once more after the wait, and where a rank waits
    still, all others are due again.
    """

    def __init__(self) -> None:
        self.waits = Waits.NONE
        self._fast_s = FAST_S
        self._is_running = False
        self._all_due_us = self._all_soonest_us = 0
        """Times when all others are due, where nobody waits and where somebody has waited, in µs."""
        self._running_soonest_us = 0

    @property
    def next_s(self) -> float:
        """Time in seconds until the next look at ranks."""
        return self._fast_s if self._is_running else IDLE_S

    def note_running(self, is_running: bool) -> None:
        """Note whether ranks ran in the last period."""
        self._is_running = is_running

    def ranks_looked(self, now_us: int, has_waited: bool, cost_us: int) -> Look:
        """Note a look at ranks, with its cost, and whether one of them has waited; return who is next."""
        wanted_s = min(max(cost_us / 1e6 / FAST_SHARE, FAST_S), SLOWEST_S)
        self._fast_s += 0.1 * (wanted_s - self._fast_s)
        before = self.waits
        if has_waited:
            self.waits = Waits.NOW
        elif before is Waits.NOW:
            self.waits = Waits.OVER
        if now_us >= (self._all_due_us if self.waits is Waits.NONE else self._all_soonest_us):
            return Look.ALL
        if Waits.NOW in (before, self.waits) and now_us >= self._running_soonest_us:
            return Look.RUNNING
        return Look.NOBODY

    def all_looked(self, now_us: int, cost_us: int) -> None:
        """Note a look at all others, with its cost."""
        if self.waits is Waits.OVER:
            self.waits = Waits.NONE
        pause_us = cost_us / OTHERS_SHARE
        self._all_due_us = now_us + int(max(OTHERS_S * 1e6, pause_us))
        self._all_soonest_us = max(
            now_us + int(OTHERS_SOONEST_S * 1e6), _due_us(self._all_soonest_us, now_us, pause_us)
        )

    def running_looked(self, now_us: int, cost_us: int) -> None:
        """Note a look at those that ran last, with its cost."""
        self._running_soonest_us = _due_us(self._running_soonest_us, now_us, cost_us / AGAIN_SHARE)

    def validate_state(self) -> None:
        """Raise AssertionError where the state is impossible."""
        assert FAST_S * 0.999 <= self._fast_s <= SLOWEST_S * 1.001
        assert self._all_soonest_us <= self._all_due_us


def _due_us(was_due_us: int, now_us: int, pause_us: float) -> int:
    """Return the time of the next look, a pause after this one."""
    return max(was_due_us, now_us - SPARED_US) + int(pause_us)


class FastLooks:
    """Looks at some threads, at the pace of a ``LookPace``.

    Parameters
    ----------
    rows
        Rows of other processes go there; those of threads stay here until they are wanted.
    costs
        CPU time of the looks is added to them.
    has_others
        Whether other processes are looked at, too.
    """

    def __init__(self, rows: KeptRows, costs: Costs, has_others: bool) -> None:
        self._rows = rows
        self._costs = costs
        self._has_others = has_others
        self._files = ProcReader()
        self._ring = FastRing(self._files)
        self._others = Others(self._files)
        self._pace = LookPace()
        self._threads: dict[int, int] = {}
        """Threads that are looked at, each with its process."""

    @property
    def next_s(self) -> float:
        """Time in seconds until the next look."""
        return self._pace.next_s

    def add(self, pid: int) -> None:
        """Look at the main thread of a process from now on, at the pace of ranks that run."""
        self._threads[pid] = pid
        self._pace.note_running(True)

    def remember(self, readings: Iterable[Reading]) -> None:
        """Take in what was read before there were looks, and look at these threads from now on."""
        self._threads |= self._ring.remember(readings)
        self._pace.note_running(bool(self._threads))

    def choose(self, threads: dict[int, int], is_running: bool) -> None:
        """Look at these threads from now on, each with its process; ``is_running`` where ranks run at all."""
        for tid in self._threads.keys() - threads.keys():
            self._ring.forget(tid)
        self._threads = threads
        self._pace.note_running(is_running)

    def look(self, now_us: int, watched: Collection[int]) -> None:
        """Look at the threads, and at processes that are not ``watched`` where they are due."""
        if not self._threads:
            return
        began_ns = time.thread_time_ns()
        has_waited = self._ring.read(self._threads)
        cost_us = _cost_us(began_ns)
        self._costs.fast_us += cost_us
        look = self._pace.ranks_looked(now_us, has_waited, cost_us)
        if not self._has_others or look is Look.NOBODY:
            return
        began_ns = time.thread_time_ns()
        if look is Look.ALL:
            self._rows.put("others", self._others.look(now_us, watched))
            cost_us = _cost_us(began_ns)
            self._costs.period_us += cost_us
            self._pace.all_looked(now_us, cost_us)
        else:
            self._rows.put("others", self._others.look_again(now_us, watched))
            cost_us = _cost_us(began_ns)
            self._costs.fast_us += cost_us
            self._pace.running_looked(now_us, cost_us)

    def latest(self) -> Iterator[ThreadLook]:
        """Yield what was seen of each thread in the last look; ``thread`` is the kernel's id."""
        return self._ring.latest()

    def readings(self, pids: Container[int]) -> dict[int, list[Reading]]:
        """Return what was read of the threads of some processes, by thread, in order of time."""
        return self._ring.readings(pids)

    def stretches(self) -> Iterator[tuple[int, Stretch]]:
        """Return what each thread did from look to look, over all looks since the last call."""
        return self._ring.stretches()

    def take(self, begin_us: int, end_us: int) -> Rows:
        """Return the THREAD rows of an interval that were not taken before."""
        return self._ring.take(begin_us, end_us)

    def awaited(self, begin_us: int, end_us: int) -> Iterator[Awaited]:
        """Yield the files and children that threads slept for in an interval."""
        return self._ring.awaited(begin_us, end_us)

    def close(self) -> None:
        """Close all files."""
        self._ring.close()
        self._files.close()


def _cost_us(began_ns: int) -> int:
    return (time.thread_time_ns() - began_ns) // 1000
