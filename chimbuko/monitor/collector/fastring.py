"""Fast samples of a few threads, parsed only where they are wanted; a ring that gives each row away once."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.monitor.collector.lossfinder import Stretch
from chimbuko.monitor.procfs.numbers import counter
from chimbuko.monitor.procfs.systemcalls import (
    CHILDREN,
    FILES,
    NO_CALL,
    PIPE,
    STREAMS,
    argument,
    is_frozen,
    moved_at,
    system_call,
)
from chimbuko.monitor.procfs.task import SchedStat, TaskStat, parse_migrations, parse_schedstat, parse_stat
from chimbuko.monitor.samples.intervals import ends_us
from chimbuko.monitor.samples.nodebatch import Awaited, Rows
from chimbuko.monitor.samples.rows import THREAD
from chimbuko.monitor.sampling.procreader import ProcReader, read_once


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
RESTLESS_PER_S = 1_000
"""A thread that is put on a core so often may be one that is moved all the time."""
MUCH_WAITED = 0.2
MOST_MOVES = 65_535
_NO_FILES = "pipe:", "socket:", "anon_inode:"
_WAITID, _P_PID = (b"247", b"95"), 1
"""Numbers of ``waitid``, and its first argument where the second is the id of a process."""
ASLEEP = b"S", b"D"
"""States of a thread that waits for something else than a core."""
LONGEST_US = 500_000
"""Between two readings of a thread that make a row: it was not looked at in between."""


class _Reading(NamedTuple):
    """A thread at one moment."""

    time_us: int
    tid: int
    pid: int
    stat: bytes
    sched: bytes
    times: SchedStat | None
    """Values of ``sched``."""
    call: int
    """Number of the system call in which the thread slept."""
    moves: int | None
    """Number of moves to another core; not read where the thread is put on a core as seldom as most threads
    are. The file that has it takes 2 to 8 kB.
    """
    awaited: str = ""
    """Path of the file, or name of the child process, that it slept for; empty if none is known."""
    moved: tuple[int, int] = (0, 0)
    """Bytes of the file that it moved, as ``moved_at`` has them."""


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

    before: _Reading
    now: _Reading
    is_taken: bool = False


class _Thread:
    """The files of one thread."""

    __slots__ = ("_call", "_is_asked", "_moved", "_pid", "_place", "_sched", "_stat", "_tid", "last")

    def __init__(self, files: ProcReader, pid: int, tid: int) -> None:
        folder = f"/proc/{pid}/task/{tid}/"
        self._pid, self._tid = pid, tid
        self._stat, self._sched, self._call, self._place, self._moved = (
            files.file(folder + name) for name in ("stat", "schedstat", "syscall", "wchan", "sched")
        )
        self.last: _Reading | None = None
        self._is_asked = False
        """Whether it is known if it is frozen, since it was on a core."""

    def read(self) -> _Reading | None:
        """Return the reading of now, or None if the thread has ended."""
        sched, last = self._sched.read(), self.last
        now_us = time.time_ns() // 1000
        if last is not None and sched and sched == last.sched:
            # It has not been on a core since: all of it is as it was. To ask who sleeps so long whether he is
            # frozen costs less than to ask all who sleep.
            is_asked, self._is_asked = self._is_asked, True
            if not is_asked and _state(last.stat) == b"S" and is_frozen(b"S", NO_CALL, self._place.read()):
                last = last._replace(stat=_stopped(last.stat))
            if not is_asked and last.awaited and last.call in CHILDREN:
                # A child has the name of who forked it until it is a program of its own.
                last = last._replace(awaited=_name_of_child(self._call.read()))
            self.last = last._replace(time_us=now_us)
            return self.last
        self._is_asked = False
        times, stat = parse_schedstat(sched), self._stat.read()
        # What it sleeps in can only be seen while it does.
        call, awaited, moved = NO_CALL, "", (0, 0)
        if (state := _state(stat)) in ASLEEP:
            data = self._call.read()
            call, awaited = self._slept_in(state, data)
            if awaited and call in FILES:
                moved = moved_at(data, self._position(data))
            if state == b"D" and is_frozen(state, call, self._place.read()):
                stat = _stopped(stat)
        is_restless = last is not None and _slices_per_s(last, times, now_us) > RESTLESS_PER_S
        moves = parse_migrations(self._moved.read()) if is_restless else None
        is_alive, ids = bool(stat), (now_us, self._tid, self._pid)
        self.last = _Reading(*ids, stat, sched, times, call, moves, awaited, moved) if is_alive else None
        return self.last

    def _slept_in(self, state: bytes, data: bytes) -> tuple[int, str]:
        """Return the system call by ``syscall``, and the file or the child that the thread sleeps for."""
        call = system_call(data)
        if call in CHILDREN:
            return call, _name_of_child(data)
        if call not in FILES:
            return call, ""
        try:
            path = os.readlink(f"/proc/{self._pid}/fd/{argument(data, 0)}").encode(errors="replace").decode()
        except OSError:
            return call, ""
        if path.startswith(_NO_FILES):
            return (PIPE if state == b"S" and call in STREAMS else call), ""
        return call, path

    def _position(self, data: bytes) -> int:
        """Return the position of the descriptor that a thread waits for, by ``syscall``; 0 if unknown."""
        info = read_once(f"/proc/{self._pid}/fdinfo/{argument(data, 0)}")
        return counter(info.partition(b"pos:\t")[2].partition(b"\n")[0]) or 0

    def close(self) -> None:
        for file in (self._stat, self._sched, self._call, self._place, self._moved):
            file.close()


def _name_of_child(data: bytes) -> str:
    """Return the name of the child that a thread waits for, by ``syscall``; empty if it may be any child."""
    first, second = argument(data, 0), argument(data, 1)
    pid = second if data.split(b" ", 1)[0] in _WAITID and first == _P_PID else first
    return read_once(f"/proc/{pid}/comm").decode(errors="replace").strip()


class FastRing:
    """Reads threads, and remembers the newest readings."""

    def __init__(self, files: ProcReader, capacity: int = MOST_READINGS) -> None:
        self._files = files
        self._pairs: deque[_Pair] = deque(maxlen=capacity)
        self._new: deque[_Pair] = deque(maxlen=capacity)
        """Looks that ``stretches`` has not given yet."""
        self._latest: list[_Pair] = []
        self._threads: dict[int, _Thread] = {}

    def read(self, threads: dict[int, int]) -> bool:
        """Look at threads, by their number and that of their process.

        Returns whether one of them waited for a core for ``MUCH_WAITED`` of the time since the last look.
        """
        has_waited = False
        self._latest.clear()
        for tid, pid in threads.items():
            thread = self._threads.get(tid)
            if thread is None:
                thread = self._threads[tid] = _Thread(self._files, pid, tid)
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

    def latest(self) -> Iterator[ThreadLook]:
        """Yield the state of each thread at the last look; ``thread`` is the kernel's id."""
        for pair in self._latest:
            now = pair.now
            length_us = min(now.time_us - pair.before.time_us, LONGEST_US)
            if length_us > 0:
                is_asleep = _state(now.stat) in ASLEEP
                yield ThreadLook(now.pid, now.tid, now.time_us, length_us, is_asleep)

    def stretches(self) -> Iterator[tuple[int, Stretch]]:
        """Return what each thread did from look to look, over all looks since the last call."""
        while self._new:
            pair = self._new.popleft()
            yield pair.now.tid, _stretch(pair.before, pair.now)

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


def _row(before: _Reading, now: _Reading) -> tuple[object, ...] | None:
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


def _moves(before: _Reading, now: _Reading, is_elsewhere: bool) -> int:
    """Return the number of moves: as far as that was read, else whether the thread is on another core than
    before.
    """
    first, second = before.moves, now.moves
    counted = 0 if first is None or second is None else min(second - first, MOST_MOVES)
    return max(counted, int(is_elsewhere))


def _slices_per_s(last: _Reading, times: SchedStat | None, now_us: int) -> float:
    if last.times is None or times is None:
        return 0.0
    return 1e6 * (times.slices - last.times.slices) / max(1, now_us - last.time_us)


def _user_us(first: TaskStat, second: TaskStat) -> int:
    return max(0, second.user_ticks - first.user_ticks) * TICK_US


def _has_waited(before: _Reading, now: _Reading) -> bool:
    if before.times is None or now.times is None:
        return False
    if now.sched == before.sched and _state(now.stat) == b"R":
        # It waits now, and has all the time: the kernel counts that when it is over.
        return True
    waited_ns = now.times.waited_ns - before.times.waited_ns
    return waited_ns > MUCH_WAITED * 1000 * (now.time_us - before.time_us)


def _stretch(before: _Reading, now: _Reading) -> Stretch:
    ran_ns = waited_ns = 0
    if before.times is not None and now.times is not None:
        ran_ns = max(0, now.times.ran_ns - before.times.ran_ns)
        waited_ns = max(0, now.times.waited_ns - before.times.waited_ns)
    return Stretch(
        before.time_us, now.time_us, ran_ns // 1000, waited_ns // 1000, _is_stopped(before), _is_stopped(now)
    )


def _is_stopped(reading: _Reading) -> bool:
    return _state(reading.stat) in (b"T", b"t")


def _state(stat: bytes) -> bytes:
    """Return the kernel's letter for the state of a thread."""
    return stat[stat.rfind(b") ") + 2 :][:1]


def _stopped(stat: bytes) -> bytes:
    """Return the state that ``stat`` would give if a signal had stopped the thread."""
    before, _, behind = stat.rpartition(b") ")
    return before + b") T" + behind[1:]
