"""Sleeps until something happens: a child ends, a signal comes, somebody visits."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from chimbuko.process.signals import FROM_OTHERS, heed


class Wakeup:
    """Ends the launcher's sleep with each signal, also that a child has ended; as a context."""

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
        select.select([self._reading, *readable], [], [], timeout_s)
        with suppress(BlockingIOError):
            os.read(self._reading, 1 << 12)


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
