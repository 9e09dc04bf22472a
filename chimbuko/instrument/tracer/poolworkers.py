"""Workers of multiprocessing, which their parent ends by SIGTERM: they hand over their last calls before it.

A signal that Python handles waits for code in C to return. So that a worker that is stuck there still ends,
its parent kills one that has not ended some seconds after it was terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LONGEST_END_S = 1.0
"""Longest time by which the last handover of a worker holds up its end."""
KILL_AFTER_S = 5.0
"""Time after which a worker is taken for stuck: on a busy node the last handover takes 1 s."""

_terminated: deque[tuple[Any, float]] = deque()
"""Processes of multiprocessing that this process has terminated, and when they are killed."""


def is_worker() -> bool:
    """Whether multiprocessing has started this interpreter as a worker."""
    return "--multiprocessing-fork" in sys.orig_argv


def end_by_signal(stop: Callable[[float], None]) -> None:
    """Call ``stop`` with the longest time it may take when SIGTERM comes, if that ends the process."""

    def end(number: int, frame: object) -> None:
        # Whatever goes wrong, the process ends by the signal.
        with suppress(Exception):
            stop(LONGEST_END_S)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # Only the main thread may set a handler, and one of the program's own knows better.
    with suppress(ValueError):
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, end)


def watch_terminations() -> None:
    """Note each worker that this process terminates from now on."""
    module = sys.modules.get("multiprocessing.process")
    kind = getattr(module, "BaseProcess", None)
    if kind is None or hasattr(kind.terminate, "__wrapped__"):
        return
    original = kind.terminate

    def terminate(self: Any) -> None:
        original(self)
        _terminated.append((self, time.monotonic() + KILL_AFTER_S))

    terminate.__wrapped__ = original  # type: ignore[attr-defined]
    kind.terminate = terminate


def kill_those_left() -> None:
    """Kill the workers that have not ended in time; our own thread calls this now and then."""
    while _terminated and _terminated[0][1] < time.monotonic():
        process, _ = _terminated.popleft()
        popen = getattr(process, "_popen", None)
        # As long as nobody has waited for it, its id is nobody else's.
        if popen is not None and popen.returncode is None:
            with suppress(OSError):
                os.kill(popen.pid, signal.SIGKILL)
