"""Sleeps that end when something happens: a child ends, a signal comes, a socket is readable."""

from __future__ import annotations

import math
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from chimbuko.runtime.process.signals import FROM_OTHERS, heed

LONGEST_S = 1.0
"""Longest single sleep in seconds. Handlers are called when the main thread goes on: a signal that another
thread was given, or that came just before, does not end its wait in the kernel.
"""


class Wakeup:
    """Sleep of the launcher that each signal ends, including that of a child's end; as a context."""

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._before = signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, self._before)
        os.close(self._reading)
        os.close(self._writing)

    def wait(self, timeout_s: float, readable: Sequence[int] = ()) -> None:
        """Sleep until there is a signal, or one of these descriptors is readable, or the time is over."""
        # Not ``select.select``, which refuses descriptors above 1,023.
        waiting = select.poll()
        for descriptor in (self._reading, *readable):
            waiting.register(descriptor, select.POLLIN)
        waiting.poll(1000 * timeout_s)
        with suppress(BlockingIOError):
            os.read(self._reading, 1 << 12)


class Ending:
    """Flag that signals, and threads, set and the main thread waits for.

    An ``Event`` will not do: where a handler sets it that has interrupted its ``wait`` in the moment in which
    that holds the lock, both wait for ever, and no further signal is heard. Handlers are allowed to put into
    a ``SimpleQueue``.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[None] = SimpleQueue()

    def set(self, *_: object) -> None:
        """Set the flag; may be the handler of a signal."""
        self._asked.put(None)

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return not self._asked.empty()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Sleep until the flag is set, or the time is over; return whether it is set. For one thread."""
        until_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                self._asked.get(timeout=max(0.0, min(LONGEST_S, until_s - time.monotonic())))
            except Empty:
                if time.monotonic() >= until_s:
                    return False
            else:
                self.set()
                return True


def repeat_until_asked(do: Callable[[], None], period_s: float) -> None:
    """Do something each period until this process gets SIGINT, SIGTERM or SIGHUP, and once more then."""
    asked: list[int] = []
    heed(FROM_OTHERS, lambda number, frame: asked.append(number))
    due_s = time.monotonic()
    with Wakeup() as wakeup:
        while not asked:
            do()
            due_s = max(due_s + period_s, time.monotonic())
            while not asked and (left_s := due_s - time.monotonic()) > 0.0:
                wakeup.wait(left_s)
    do()
