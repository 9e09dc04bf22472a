"""Readings of one thread by its files in /proc, without numpy: also before the analysis is loaded."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

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
from chimbuko.monitor.procfs.task import SchedStat, parse_migrations, parse_schedstat
from chimbuko.monitor.sampling.procreader import ProcReader, read_once

RESTLESS_PER_S = 1_000
"""A thread that is put on a core so often may be one that is moved all the time."""
_NO_FILES = "pipe:", "socket:", "anon_inode:"
_WAITID, _P_PID = (b"247", b"95"), 1
"""Numbers of ``waitid``, and its first argument where the second is the id of a process."""
ASLEEP = b"S", b"D"
"""States of a thread that waits for something else than a core."""


class Reading(NamedTuple):
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


class ThreadFiles:
    """Files of one thread in /proc, which stay open."""

    __slots__ = ("_call", "_is_asked", "_moved", "_pid", "_place", "_sched", "_stat", "_tid", "last")

    def __init__(self, files: ProcReader, pid: int, tid: int) -> None:
        folder = f"/proc/{pid}/task/{tid}/"
        self._pid, self._tid = pid, tid
        self._stat, self._sched, self._call, self._place, self._moved = (
            files.file(folder + name) for name in ("stat", "schedstat", "syscall", "wchan", "sched")
        )
        self.last: Reading | None = None
        self._is_asked = False
        """Whether it is known if it is frozen, since it was on a core."""

    def read(self) -> Reading | None:
        """Return the reading of now, or None if the thread has ended."""
        sched, last = self._sched.read(), self.last
        now_us = time.time_ns() // 1000
        if last is not None and sched and sched == last.sched:
            # It has not been on a core since: all of it is as it was. To ask who sleeps so long whether he is
            # frozen costs less than to ask all who sleep.
            is_asked, self._is_asked = self._is_asked, True
            if not is_asked and state_of(last.stat) == b"S" and is_frozen(b"S", NO_CALL, self._place.read()):
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
        if (state := state_of(stat)) in ASLEEP:
            data = self._call.read()
            call, awaited = self._slept_in(state, data)
            if awaited and call in FILES:
                moved = moved_at(data, self._position(data))
            if state == b"D" and is_frozen(state, call, self._place.read()):
                stat = _stopped(stat)
        is_restless = last is not None and _slices_per_s(last, times, now_us) > RESTLESS_PER_S
        moves = parse_migrations(self._moved.read()) if is_restless else None
        is_alive, ids = bool(stat), (now_us, self._tid, self._pid)
        self.last = Reading(*ids, stat, sched, times, call, moves, awaited, moved) if is_alive else None
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
        """Close the files."""
        for file in (self._stat, self._sched, self._call, self._place, self._moved):
            file.close()


def _name_of_child(data: bytes) -> str:
    """Return the name of the child that a thread waits for, by ``syscall``; empty if it may be any child."""
    first, second = argument(data, 0), argument(data, 1)
    pid = second if data.split(b" ", 1)[0] in _WAITID and first == _P_PID else first
    return read_once(f"/proc/{pid}/comm").decode(errors="replace").strip()


def _slices_per_s(last: Reading, times: SchedStat | None, now_us: int) -> float:
    if last.times is None or times is None:
        return 0.0
    return 1e6 * (times.slices - last.times.slices) / max(1, now_us - last.time_us)


def state_of(stat: bytes) -> bytes:
    """Return the kernel's letter for the state of a thread."""
    return stat[stat.rfind(b") ") + 2 :][:1]


def _stopped(stat: bytes) -> bytes:
    """Return the state that ``stat`` would give if a signal had stopped the thread."""
    before, _, behind = stat.rpartition(b") ")
    return before + b") T" + behind[1:]
