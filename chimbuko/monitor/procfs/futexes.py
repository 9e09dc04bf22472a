"""Futexes in which threads of a process sleep: who holds the mutex, or whose end is waited for."""

from __future__ import annotations

import struct
from typing import NamedTuple

from chimbuko.monitor.procfs.systemcalls import FUTEX, NAPS, argument, polls_for_a_time, system_call

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
