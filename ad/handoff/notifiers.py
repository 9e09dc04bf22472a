"""Notifiers between processes: a process that waits for one uses no CPU time meanwhile."""

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


class MappedSemaphore:
    """POSIX semaphore in shared memory that wakes one process, which waits for a number there.

    Nobody owns a semaphore, so the death of a process harms no other.

    Parameters
    ----------
    memory, at
        Shared memory, and the offset of the ``SIZE_BYTES`` that the semaphore takes there.
    """

    SIZE_BYTES = 32
    """Size of ``sem_t`` on 64-bit machines."""

    def __init__(self, memory: mmap.mmap, at: int) -> None:
        self._semaphore = (ctypes.c_char * self.SIZE_BYTES).from_buffer(memory, at)

    def initialise(self) -> None:
        """Initialise the semaphore, before any other process uses it."""
        _libc.sem_init(self._semaphore, 1, 0)

    def notify(self) -> None:
        """Wake the process that waits, or else the next that will."""
        value = ctypes.c_int()
        _libc.sem_getvalue(self._semaphore, ctypes.byref(value))
        if value.value <= 0:
            _libc.sem_post(self._semaphore)

    def wait(self, timeout_s: float) -> None:
        """Wait for a notification, a signal or the timeout; the caller checks what it waited for."""
        seconds, fraction = divmod(time.time() + timeout_s, 1.0)
        _libc.sem_timedwait(self._semaphore, ctypes.byref(_Time(int(seconds), int(1e9 * fraction))))


class AgentNotifier:
    """Event counter (eventfd) that wakes an agent when one of its streams has something urgent for it.

    The processes of the streams inherit the descriptor, so no file is needed for which storage could be full.
    """

    def __init__(self) -> None:
        self.file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self.file, select.POLLIN)

    def notify(self) -> None:
        """Wake the agent, or let it go on at once when it waits next."""
        # The counter is full after 2^64 notifications that nobody has read.
        with suppress(BlockingIOError):
            os.eventfd_write(self.file, 1)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a notification or the timeout; return whether there was one since the last call."""
        if not self._poll.poll(1000 * max(timeout_s, 0.0)):
            return False
        os.eventfd_read(self.file)
        return True
