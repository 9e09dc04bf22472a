"""Processes that stand still: what each thread waits for, and whether they wait for each other."""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from chimbuko.monitor.procfs.systemcalls import FUTEX, NAPS, argument, polls_for_a_time, system_call
from chimbuko.monitor.sampling.procreader import read_once
from chimbuko.monitor.sampling.sample import OURS, SAMPLER
from chimbuko.monitor.sampling.span import Span, Standstill, ThreadWait

# Futexes in which threads of a process sleep: who holds the mutex, or whose end is waited for.


_WAIT, _WAIT_BITSET = 0, 9
_OPERATION, _PRIVATE = 0x7F, 0x80
MUTEX_BYTES = 12
"""Bytes of the C library's mutex up to its holder: lock, depth, and the number of the thread that has it."""


class FutexWait(NamedTuple):
    """Wait of a thread for a futex without a time at which it ends by itself."""

    address: int
    is_mutex: bool
    """Whether it is the kind of wait by which the C library waits for its mutexes."""
    is_private: bool
    """Whether only a thread of the same process can end it."""


def futex_wait(data: bytes) -> FutexWait | None:
    """Return the futex that a thread waits for, by ``syscall``; None if it waits for something else, or not
    for ever.
    """
    first = data.split(b" ", 1)[0]
    address, operation, timeout = (argument(data, at) for at in (0, 1, 3))
    if not first.isdigit() or int(first) not in FUTEX or not address or operation is None or timeout:
        return None
    command = operation & _OPERATION
    if command not in (_WAIT, _WAIT_BITSET):
        return None
    return FutexWait(address, command == _WAIT, bool(operation & _PRIVATE))


def sleeps_for_a_time(data: bytes) -> bool:
    """Return whether a thread sleeps until a time that it has named, by ``syscall``."""
    first = data.split(b" ", 1)[0]
    if system_call(data) in NAPS or polls_for_a_time(data):
        return True
    return first.isdigit() and int(first) in FUTEX and bool(argument(data, 3))


def awaited_thread(memory: bytes, wait: FutexWait) -> int:
    """Return the number of the thread that holds a mutex, or whose end is waited for; 0 if it is neither.

    Parameters
    ----------
    memory
        ``MUTEX_BYTES`` at the address of the futex.
    """
    if len(memory) < MUTEX_BYTES:
        return 0
    lock, _, owner = struct.unpack_from("<iIi", memory)
    if wait.is_mutex:
        return owner if lock in (1, 2) else 0
    # The kernel clears the number of a thread, and wakes who waits for that, when it has ended.
    return 0 if wait.is_private else lock


STILL_PERIODS = 5
"""Number of periods in which no thread of a process ran at all, from which it stands still."""
MOST_THREADS = 256
"""Threads of a process that are looked at: a look costs 10 µs for each."""


class Standstills:
    """Processes that stand still, as one period follows the other, and those that ended so."""

    def __init__(self, known: Mapping[int, Standstill] | None = None) -> None:
        self._known = dict(known or {})
        self._since: dict[int, tuple[int, int]] = {}
        """Periods for which each process has stood still so far, and since when, in µs since 1970."""

    def step(self, span: Span, now_us: int) -> dict[int, Standstill]:
        """Take the span of one period, which ends now; return all standstills that are not over, or at whose
        end the process was gone.
        """
        threads: dict[int, list[int]] = defaultdict(list)
        moving = set()
        for one in span.threads.values():
            # A tracer of ours looks at its program all the time.
            if one.kind not in (SAMPLER, OURS):
                threads[one.pid].append(one.tid)
                if not one.still_periods:
                    moving.add(one.pid)
        for pid in moving:
            self._since.pop(pid, None)
            self._known.pop(pid, None)
        begin_us = now_us - round(1e6 * span.seconds)
        for pid in threads.keys() - moving:
            periods, since_us = self._since.get(pid, (0, begin_us))
            self._since[pid] = periods + 1, since_us
            if pid in self._known:
                self._known[pid] = replace(self._known[pid], end_us=now_us)
            elif periods + 1 >= STILL_PERIODS:
                waits = read_waits(pid, threads[pid])
                self._known[pid] = Standstill(pid, since_us, now_us, tuple(waits), is_deadlock(waits))
        self._since = {pid: one for pid, one in self._since.items() if pid in threads}
        gone = self._known.keys() - threads.keys()
        self._known |= {pid: replace(self._known[pid], has_ended=True) for pid in gone}
        return dict(self._known)


def read_waits(pid: int, tids: Collection[int]) -> list[ThreadWait]:
    """Return what the threads of a process wait for, as far as the kernel shows it."""
    found = []
    for tid in sorted(tids)[:MOST_THREADS]:
        folder = f"/proc/{pid}/task/{tid}"
        call, name = read_once(f"{folder}/syscall"), read_once(f"{folder}/comm").decode(errors="replace")
        wait = futex_wait(call)
        awaited = awaited_thread(_memory(pid, wait.address), wait) if wait is not None else 0
        if awaited not in tids:
            # Other libraries keep other things beside their futexes.
            awaited = 0
        found.append(
            ThreadWait(
                tid,
                name.strip(),
                awaited,
                is_mutex=wait is not None and wait.is_mutex and awaited > 0,
                is_inside=wait is not None and (wait.is_private or awaited > 0),
                is_for_a_time=sleeps_for_a_time(call),
            )
        )
    return found


def _memory(pid: int, address: int) -> bytes:
    # Who may not see it, or has no such memory, is told nothing.
    with suppress(OSError, OverflowError), open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        return os.pread(file.fileno(), MUTEX_BYTES, address)
    return b""


def is_deadlock(waits: Sequence[ThreadWait]) -> bool:
    """Return whether threads wait for each other for ever.

    They do where each one waits for the next one in a circle, or where all of several threads wait for
    something that only another one of them could do. One alone may wait for a signal.
    """
    return bool(circle(waits)) or (len(waits) > 1 and all(one.is_inside for one in waits))


def circle(waits: Collection[ThreadWait]) -> list[ThreadWait]:
    """Return threads of which each waits for the next one, and the last for the first; none without any."""
    by_tid = {one.tid: one for one in waits}
    for one in waits:
        path: list[ThreadWait] = []
        following: ThreadWait | None = one
        while following is not None and following not in path:
            path.append(following)
            following = by_tid.get(following.awaited)
        if following is one:
            return path
    return []
