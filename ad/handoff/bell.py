"""Bells between processes: who waits for one takes no time meanwhile."""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import time
from contextlib import suppress

_libc = ctypes.CDLL(None)


class _Time(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class Bell:
    """Wakes one process that waits for a number in shared memory.

    It is a POSIX semaphore: nobody owns it, so the death of a process harms nobody.

    Parameters
    ----------
    memory, at
        Shared, ``SIZE_BYTES`` from there on.
    """

    SIZE_BYTES = 32
    """Of ``sem_t`` on machines of 64 bits."""

    def __init__(self, memory: mmap.mmap, at: int) -> None:
        self._semaphore = (ctypes.c_char * self.SIZE_BYTES).from_buffer(memory, at)

    def make(self) -> None:
        """Before anybody else uses it."""
        _libc.sem_init(self._semaphore, 1, 0)

    def ring(self) -> None:
        """Wake who waits, or else who waits next."""
        rung = ctypes.c_int()
        _libc.sem_getvalue(self._semaphore, ctypes.byref(rung))
        if rung.value <= 0:
            _libc.sem_post(self._semaphore)

    def wait(self, timeout_s: float) -> None:
        """Wait until it rings, a signal comes or the time is over; what is waited for may be there or not."""
        seconds, fraction = divmod(time.time() + timeout_s, 1.0)
        _libc.sem_timedwait(self._semaphore, ctypes.byref(_Time(int(seconds), int(1e9 * fraction))))


class AgentBell:
    """Wakes an agent when any of its streams has something that it should not wait for.

    The processes of the streams inherit it, so there is no file that there might be no room for.
    """

    def __init__(self) -> None:
        self.file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self.file, select.POLLIN)

    def ring(self) -> None:
        """Wake the agent, or let it go on at once when it waits next."""
        # It is full after 2^64 rings that nobody has heard.
        with suppress(BlockingIOError):
            os.eventfd_write(self.file, 1)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it rings or the time is over; whether it has rung since the last time."""
        if not self._poll.poll(1000 * max(timeout_s, 0.0)):
            return False
        os.eventfd_read(self.file)
        return True
