"""The semaphore wakes a process that waits, or that waits later, and is not heard twice."""

from __future__ import annotations

import mmap
import multiprocessing
import time

from chimbuko.ad.handoff.notifiers import MappedSemaphore

LONG_S = 60.0


def new_semaphores() -> tuple[MappedSemaphore, MappedSemaphore]:
    """Both ends, at any place of the memory."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    first, second = MappedSemaphore(memory, 512), MappedSemaphore(memory, 512)
    first.initialise()
    return first, second


def test_who_waits_is_woken_by_another_process() -> None:
    ours, theirs = new_semaphores()
    other = multiprocessing.get_context("fork").Process(target=lambda: (time.sleep(0.05), theirs.notify()))
    other.start()
    began_s = time.monotonic()
    ours.wait(LONG_S)
    assert time.monotonic() - began_s < LONG_S
    other.join()


def test_who_comes_later_is_woken_once_however_often_it_rang() -> None:
    ours, theirs = new_semaphores()
    for _ in range(3):
        theirs.notify()
    began_s = time.monotonic()
    ours.wait(LONG_S)
    assert time.monotonic() - began_s < LONG_S
    ours.wait(0.02)
    assert time.monotonic() - began_s >= 0.02
