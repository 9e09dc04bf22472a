"""Futexes by what the kernel shows of a thread that sleeps."""

from __future__ import annotations

import struct

from chimbuko.monitor.procfs.systemcalls import FUTEX
from chimbuko.monitor.sampling.standstill import FutexWait, awaited_thread, futex_wait, sleeps_for_a_time

NUMBER = min(FUTEX)


def syscall(address: int, operation: int, timeout: int = 0, number: int = NUMBER) -> bytes:
    return f"{number} {address:#x} {operation:#x} 0x2 {timeout:#x} 0x0 0x0 0x7ffc 0x7f01\n".encode()


def test_what_a_thread_waits_for() -> None:
    assert futex_wait(syscall(0x4040, 0x80)) == FutexWait(0x4040, is_mutex=True, is_private=True)
    assert futex_wait(syscall(0x4040, 0x189)) == FutexWait(0x4040, is_mutex=False, is_private=True)
    assert futex_wait(syscall(0x4040, 0x109)) == FutexWait(0x4040, is_mutex=False, is_private=False)
    for other in (syscall(0x4040, 0x80, timeout=9), syscall(1, 0x81), syscall(1, 0x80, number=0), b"running"):
        assert futex_wait(other) is None


def test_who_sleeps_for_a_time() -> None:
    assert sleeps_for_a_time(syscall(0x4040, 0x189, timeout=0x7FFC))
    assert not sleeps_for_a_time(syscall(0x4040, 0x189)) and not sleeps_for_a_time(b"")


def test_the_thread_that_is_waited_for() -> None:
    mutex, end = FutexWait(1, True, True), FutexWait(1, False, False)
    assert awaited_thread(struct.pack("<iIi", 2, 0, 4711), mutex) == 4711
    assert awaited_thread(struct.pack("<iIi", 7, 0, 4711), mutex) == 0, "no mutex of the C library"
    assert awaited_thread(struct.pack("<iIi", 4711, 0, 0), end) == 4711
    assert awaited_thread(struct.pack("<iIi", 4711, 0, 0), FutexWait(1, False, True)) == 0
    assert awaited_thread(b"", mutex) == 0
