"""Which signals mean something to processes of ours, and what the kernel calls these.

A scheduler that ends a job sends SIGTERM to all of its processes at once, and SIGKILL some time later.
Services that ended at the first would leave nobody to deliver to. So only who leads a part of a run heeds
it, and asks the others to end, by a signal of their own, in the order in which they can.

It is imported where no other package is to be had.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

END = signal.SIGRTMIN + 4
"""Asks a process of ours to finish what it has to do, and end. Nobody else sends it; who is not ready for it
ends at once."""

FROM_OTHERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What users, terminals and schedulers send to all processes that they see."""


def heed(numbers: Iterable[signal.Signals], handle: Callable[[int, Any], object]) -> None:
    """Handle signals, but for those that are ignored: ``nohup``, and a shell's jobs in the background."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def ignore_others() -> None:
    """From now on end only by ``END``; what this process starts inherits that."""
    for number in FROM_OTHERS:
        signal.signal(number, signal.SIG_IGN)


def be_called(name: str) -> None:
    """Have the kernel call this process by another name, of 15 characters at most: those that begin with
    ``chimbuko.`` are ours for who samples a node, and no load of others.
    """
    with suppress(OSError), open("/proc/self/comm", "w") as own_name:
        own_name.write(name)


@contextmanager
def no_ctrl_c() -> Iterator[None]:
    """What is started meanwhile never hears Ctrl-C, and shows no traceback for it: who starts it ends it.

    This process hears it a moment later.
    """
    from multiprocessing import resource_tracker

    # Of multiprocessing; it would let Ctrl-C through again when it starts, with the first process.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Ctrl-C ends this process at once, for it has begun nothing that would have to be ended in order.

    Python's way is an exception: while modules are loaded it can come where it is shown, and then forgotten.
    """
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heeded:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if is_heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class StopSignal:
    """Becomes true when the process is asked to end (``END``).

    Parameters
    ----------
    wake
        Called then, to end what the process waits for.
    number
        Another signal: SIGTERM for who has to know that time may be short, and ends later.
    """

    def __init__(self, wake: Callable[[], object] = lambda: None, number: int = END) -> None:
        self._asked_at = 0.0
        self._wake = wake
        signal.signal(number, self._ask)

    def __call__(self) -> bool:
        """Whether the process was asked to end."""
        return self._asked_at > 0

    def _ask(self, signum: int, frame: object) -> None:
        self._asked_at = time.monotonic()
        # Asked again while Python ends, when its own handlers are gone, the process would count as killed.
        signal.signal(signum, signal.SIG_IGN)
        self._wake()
