"""Signals that mean something to processes of ours, and the names that the kernel shows for these.

A scheduler that ends a job sends SIGTERM to all of its processes at once, and SIGKILL some time later.
Services that ended at the first would leave nobody to deliver to. So only the leader of a part of a run heeds
it, and asks the others to end, by a signal of their own, in the order in which they can.

It is imported where no other package is available.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

END = signal.SIGRTMIN + 4
"""Signal that asks a process of ours to finish its work, and end. Nobody else sends it; a process that is not
ready for it ends at once.
"""

FROM_OTHERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that users, terminals and schedulers send to all processes that they see."""


def heed(numbers: Iterable[signal.Signals], handle: Callable[[int, Any], object]) -> None:
    """Handle signals, except those that are ignored, as by ``nohup``, or in a shell's jobs in the
    background.
    """
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def ignore_others() -> None:
    """End only by ``END`` from now on; processes that this one starts inherit that."""
    for number in FROM_OTHERS:
        signal.signal(number, signal.SIG_IGN)


def be_called(name: str) -> None:
    """Set the kernel's name of this process, of 15 characters at most: names that begin with ``chimbuko.``
    mark our processes when a node is sampled, so that they count as no other load.
    """
    with suppress(OSError), open("/proc/self/comm", "w") as own_name:
        own_name.write(name)


@contextmanager
def no_ctrl_c() -> Iterator[None]:
    """Start processes in this context that never hear Ctrl-C, and show no traceback for it: their parent ends
    them.

    This process hears it a moment later.
    """
    from multiprocessing import resource_tracker

    # The resource tracker of multiprocessing would let Ctrl-C through again when it starts, with the first
    # process.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end this process at once in this context, where it has begun nothing that would have to be
    ended in order.

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
    """Flag that becomes true when the process is asked to end (``END``).

    Parameters
    ----------
    wake
        Callback that is called then, to end what the process waits for.
    number
        Another signal: SIGTERM for a process that has to know that time may be short, and ends later.
    """

    def __init__(self, wake: Callable[[], object] = lambda: None, number: int = END) -> None:
        self._asked_at = 0.0
        self._wake = wake
        signal.signal(number, self._ask)

    def __call__(self) -> bool:
        """Return whether the process was asked to end."""
        return self._asked_at > 0

    def _ask(self, signum: int, frame: object) -> None:
        self._asked_at = time.monotonic()
        # Asked again while Python ends, when its own handlers are gone, the process would count as killed.
        signal.signal(signum, signal.SIG_IGN)
        self._wake()
