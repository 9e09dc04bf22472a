"""Fast samples of a few threads, parsed only where they are wanted; rings that give each row away once, and
what of all rows is kept on the node.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.monitor.collector.lossfinder import Stretch
from chimbuko.monitor.collector.threadreading import ASLEEP, Reading, ThreadFiles, state_of
from chimbuko.monitor.procfs.task import TaskStat, parse_stat
from chimbuko.monitor.sampling.nodebatch import Awaited
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.rows import CORE, GPU, NODE, OTHER, THREAD, Rows, ends_us, summed


class _Slice(msgspec.Struct):
    """Rows that came together."""

    rows: Rows
    last_us: int
    is_taken: npt.NDArray[np.bool_] | None = None
    """Mask of the rows that are taken; None if none is."""


KEPT_US = 900_000_000
"""Time for which rows are kept, in µs: a call that they explain has ended a few seconds ago. Without
such a limit memory would grow for hours, until there are ``capacity`` rows.
"""


class SliceRing:
    """Rows in slices that end later and later: the newest slices, up to ``capacity`` rows of ``KEPT_US``."""

    def __init__(self, dtype: np.dtype[np.void], capacity: int) -> None:
        self._none = np.zeros(0, dtype)
        self._capacity = capacity
        self._slices: deque[_Slice] = deque()
        self._count = 0

    def put(self, rows: Rows) -> None:
        """Further rows, in place of the oldest."""
        rows = rows[-self._capacity :]
        if not len(rows):
            return
        self._slices.append(_Slice(rows, int(ends_us(rows).max())))
        self._count += len(rows)
        oldest_us = self._slices[-1].last_us - KEPT_US
        while self._count > self._capacity or self._slices[0].last_us < oldest_us:
            self._count -= len(self._slices.popleft().rows)

    def take(self, begin_us: int, end_us: int) -> Rows:
        """Return the rows of an interval that were not taken before."""
        found = [self._none]
        # The newest first: what is asked for was not long ago.
        for one in reversed(self._slices):
            if one.last_us <= begin_us:
                break
            wanted = (one.rows["begin_us"] < end_us) & (ends_us(one.rows) > begin_us)
            if one.is_taken is None:
                one.is_taken = wanted
            else:
                wanted &= ~one.is_taken
                one.is_taken |= wanted
            found.append(one.rows[wanted])
        return np.concatenate(found)


TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
MOST_READINGS = 16_384
"""Some 1.2 kB each, 20 MB in all: 60 s of five threads at 20 ms."""
READINGS_KEPT_US = 300_000_000
"""Time for which they are kept, in µs: where looks are rare so many readings come in an hour only."""
MUCH_WAITED = 0.2
MOST_MOVES, MOST_US = 65_535, 2**32 - 1
LONGEST_US = 500_000
"""Between two readings of a thread that make a row: it was not looked at in between."""


class ThreadLook(NamedTuple):
    """State of a thread at one moment."""

    pid: int
    thread: int
    time_us: int
    length_us: int
    """Time since the look before, for which this one stands."""
    is_asleep: bool


class _Pair(msgspec.Struct):
    """Two readings of a thread, one after the other."""

    before: Reading
    now: Reading
    is_taken: bool = False


class FastRing:
    """Reads threads, and remembers the newest readings."""

    def __init__(self, files: ProcReader, capacity: int = MOST_READINGS) -> None:
        self._files = files
        self._pairs: deque[_Pair] = deque(maxlen=capacity)
        self._new: deque[_Pair] = deque(maxlen=capacity)
        """Looks that ``stretches`` has not given yet."""
        self._latest: list[_Pair] = []
        self._threads: dict[int, ThreadFiles] = {}

    def read(self, threads: dict[int, int]) -> bool:
        """Look at threads, by their number and that of their process.

        Returns whether one of them waited for a core for ``MUCH_WAITED`` of the time since the last look.
        """
        has_waited = False
        self._latest.clear()
        for tid, pid in threads.items():
            thread = self._threads.get(tid)
            if thread is None:
                thread = self._threads[tid] = ThreadFiles(self._files, pid, tid)
            before, now = thread.last, thread.read()
            if before is not None and now is not None:
                pair = _Pair(before, now)
                self._pairs.append(pair)
                self._new.append(pair)
                self._latest.append(pair)
                has_waited = has_waited or _has_waited(before, now)
        while self._pairs and self._pairs[0].now.time_us < self._pairs[-1].now.time_us - READINGS_KEPT_US:
            self._pairs.popleft()
        return has_waited

    def remember(self, readings: Iterable[Reading]) -> dict[int, int]:
        """Take in readings of others, older than all others, in order of time; return their threads, each
        with its process.
        """
        for now in readings:
            thread = self._threads.get(now.tid)
            if thread is None:
                thread = self._threads[now.tid] = ThreadFiles(self._files, now.pid, now.tid)
            if thread.last is not None:
                self._pairs.append(_Pair(thread.last, now))
            thread.last = now
        return {tid: thread.last.pid for tid, thread in self._threads.items() if thread.last is not None}

    def latest(self) -> Iterator[ThreadLook]:
        """Yield the state of each thread at the last look; ``thread`` is the kernel's id."""
        for pair in self._latest:
            now = pair.now
            length_us = min(now.time_us - pair.before.time_us, LONGEST_US)
            if length_us > 0:
                is_asleep = state_of(now.stat) in ASLEEP
                yield ThreadLook(now.pid, now.tid, now.time_us, length_us, is_asleep)

    def stretches(self) -> Iterator[tuple[int, Stretch]]:
        """Return what each thread did from look to look, over all looks since the last call."""
        while self._new:
            pair = self._new.popleft()
            yield pair.now.tid, _stretch(pair.before, pair.now)

    def readings(self, pids: Container[int]) -> dict[int, list[Reading]]:
        """Return what was read of the threads of some processes, by thread, in order of time."""
        found: dict[int, list[Reading]] = {}
        for pair in self._pairs:
            if pair.now.pid in pids:
                found.setdefault(pair.now.tid, [pair.before]).append(pair.now)
        for tid, thread in self._threads.items():
            if thread.last is not None and thread.last.pid in pids:
                found.setdefault(tid, [thread.last])
        return found

    def forget(self, tid: int) -> None:
        """Look at a thread no longer."""
        thread = self._threads.pop(tid, None)
        if thread is not None:
            thread.close()

    def take(self, begin_us: int, end_us: int) -> Rows:
        """THREAD rows of an interval that were not taken before."""
        rows = []
        # The newest first: what is asked for was not long ago.
        for pair in reversed(self._pairs):
            if pair.now.time_us <= begin_us:
                break
            if pair.is_taken or pair.before.time_us >= end_us:
                continue
            pair.is_taken = True
            row = _row(pair.before, pair.now)
            if row is not None:
                rows.append(row)
        return np.array(rows, THREAD)

    def awaited(self, begin_us: int, end_us: int) -> Iterator[Awaited]:
        """Yield the files and children that threads slept for in an interval, also those given before."""
        for pair in reversed(self._pairs):
            if pair.now.time_us <= begin_us:
                break
            one = pair.now if pair.now.awaited else pair.before
            if pair.before.time_us < end_us and one.awaited:
                yield Awaited(pair.now.tid, pair.before.time_us, pair.now.time_us, one.awaited, *one.moved)

    def close(self) -> None:
        """Close all files."""
        for tid in list(self._threads):
            self.forget(tid)


def _row(before: Reading, now: Reading) -> tuple[object, ...] | None:
    length_us = now.time_us - before.time_us
    first, second = parse_stat(before.stat), parse_stat(now.stat)
    if first is None or second is None or first.start_ticks != second.start_ticks:
        return None
    if not 0 < length_us <= LONGEST_US:
        return None
    system_us = max(0, second.system_ticks - first.system_ticks) * TICK_US
    old, new = before.times, now.times
    if old is not None and new is not None:
        ran_ns, waited_ns, slices = (max(0, later - earlier) for earlier, later in zip(old, new, strict=True))
    else:
        ran_ns, waited_ns, slices = 1000 * (system_us + _user_us(first, second)), 0, 0
    return (
        *(before.time_us, length_us, now.pid, now.tid, ran_ns // 1000, waited_ns // 1000, system_us),
        max(0, second.minor_faults - first.minor_faults),
        max(0, second.major_faults - first.major_faults),
        *(slices, _moves(before, now, first.processor != second.processor), second.processor),
        *(now.call, second.state.encode()),
    )


class Passed(NamedTuple):
    """Counters of a thread at a time."""

    time_us: int
    ran_us: int = 0
    waited_us: int = 0
    system_us: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    slices: int = 0


def passed_by(now: Reading, stat: TaskStat) -> Passed:
    """Return what had passed of a thread by a reading, with its ``stat``."""
    system_us = stat.system_ticks * TICK_US
    ran_us, waited_us, slices = system_us + stat.user_ticks * TICK_US, 0, 0
    if now.times is not None:
        ran_us, waited_us, slices = now.times.ran_ns // 1000, now.times.waited_ns // 1000, now.times.slices
    faults = stat.minor_faults, stat.major_faults
    return Passed(now.time_us, ran_us, waited_us, system_us, *faults, slices)


def passed_row(
    base: Passed, now: Passed, pid: int, tid: int, core: int, call: int, state: str
) -> tuple[object, ...]:
    """THREAD row of a thread from one time to another; figures as in it."""
    length_us, ran_us, waited_us, system_us, minor, major, slices = (
        min(max(0, later - earlier), MOST_US) for earlier, later in zip(base, now, strict=True)
    )
    figures = length_us, pid, tid, ran_us, waited_us, system_us, minor, major, slices
    return (base.time_us, *figures, 0, core, call, state.encode())


def _moves(before: Reading, now: Reading, is_elsewhere: bool) -> int:
    """Return the number of moves: as far as that was read, else whether the thread is on another core than
    before.
    """
    first, second = before.moves, now.moves
    counted = 0 if first is None or second is None else min(second - first, MOST_MOVES)
    return max(counted, int(is_elsewhere))


def _user_us(first: TaskStat, second: TaskStat) -> int:
    return max(0, second.user_ticks - first.user_ticks) * TICK_US


def _has_waited(before: Reading, now: Reading) -> bool:
    if before.times is None or now.times is None:
        return False
    if now.sched == before.sched and state_of(now.stat) == b"R":
        # It waits now, and has all the time: the kernel counts that when it is over.
        return True
    waited_ns = now.times.waited_ns - before.times.waited_ns
    return waited_ns > MUCH_WAITED * 1000 * (now.time_us - before.time_us)


def _stretch(before: Reading, now: Reading) -> Stretch:
    ran_ns = waited_ns = 0
    if before.times is not None and now.times is not None:
        ran_ns = max(0, now.times.ran_ns - before.times.ran_ns)
        waited_ns = max(0, now.times.waited_ns - before.times.waited_ns)
    return Stretch(
        before.time_us, now.time_us, ran_ns // 1000, waited_ns // 1000, _is_stopped(before), _is_stopped(now)
    )


def _is_stopped(reading: Reading) -> bool:
    return state_of(reading.stat) in (b"T", b"t")


MOST_UNSUMMED = 64
"""Periods, or looks, whose rows are kept until they are summed: to sum them takes as long as some periods."""
KEYS: dict[str, list[str]] = {
    "threads": ["pid", "tid"],
    "cores": ["cpu"],
    "others": ["pid", "core"],
    "states": [],
    "gpus": ["gpu"],
}
"""Columns by which rows are summed."""


class KeptRows:
    """Rows by kind, each in a ring that gives it away once, and in the sum that is being made."""

    def __init__(self) -> None:
        self._rings = {
            "threads": SliceRing(THREAD, 65_536),
            "cores": SliceRing(CORE, 8192),
            "others": SliceRing(OTHER, 4096),
            "states": SliceRing(NODE, 512),
            "gpus": SliceRing(GPU, 4096),
        }
        self._unsummed: dict[str, list[Rows]] = {name: [] for name in KEYS}

    def put(self, kind: str, rows: Rows) -> None:
        """Add rows that end later than those before."""
        self._rings[kind].put(rows)
        self.add(kind, rows)

    def add(self, kind: str, rows: Rows) -> None:
        """Add rows of any time to the sum alone."""
        unsummed = self._unsummed[kind]
        unsummed.append(rows)
        if len(unsummed) > MOST_UNSUMMED:
            self._unsummed[kind] = [summed(np.concatenate(unsummed), KEYS[kind])]

    def take(self, begin_us: int, end_us: int) -> dict[str, Rows]:
        """Return the rows of an interval that were not taken before."""
        return {kind: ring.take(begin_us, end_us) for kind, ring in self._rings.items()}

    def take_sums(self) -> dict[str, Rows]:
        """Return the sums since the last call, of the kinds of which there are rows."""
        unsummed, self._unsummed = self._unsummed, {name: [] for name in KEYS}
        return {kind: summed(np.concatenate(rows), KEYS[kind]) for kind, rows in unsummed.items() if rows}
