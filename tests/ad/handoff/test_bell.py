"""The bell that wakes a process: it wakes who waits, and who comes later, and is not heard twice."""

from __future__ import annotations

import mmap
import multiprocessing
import time

from chimbuko.ad.handoff.bell import Bell

LONG_S = 60.0


def new_bells() -> tuple[Bell, Bell]:
    """Both ends, at any place of the memory."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    first, second = Bell(memory, 512), Bell(memory, 512)
    first.make()
    return first, second


def test_who_waits_is_woken_by_another_process() -> None:
    ours, theirs = new_bells()
    other = multiprocessing.get_context("fork").Process(target=lambda: (time.sleep(0.05), theirs.ring()))
    other.start()
    began_s = time.monotonic()
    ours.wait(LONG_S)
    assert time.monotonic() - began_s < LONG_S
    other.join()


def test_who_comes_later_is_woken_once_however_often_it_rang() -> None:
    ours, theirs = new_bells()
    for _ in range(3):
        theirs.ring()
    began_s = time.monotonic()
    ours.wait(LONG_S)
    assert time.monotonic() - began_s < LONG_S
    ours.wait(0.02)
    assert time.monotonic() - began_s >= 0.02
