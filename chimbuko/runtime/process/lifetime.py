"""What our own processes have in common: words, and how they end."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress
from typing import Any

import msgspec

from chimbuko.core.visible import visible
from chimbuko.runtime.process.oomscore import set_oom_score
from chimbuko.runtime.process.signals import END, ignore_others

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def die_with_parent(number: int = END) -> None:
    """For ``preexec_fn``: end this process when the one that started it is gone, however it went.

    Gone is already the thread that started it: that must be one which stays.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, number)


def become_ours(score: int) -> None:
    """For ``preexec_fn`` of a process of ours: it ends when its parent says so, or is gone, and where memory
    does before that.
    """
    set_oom_score(score)
    ignore_others()
    die_with_parent()


def end_within(seconds: float) -> None:
    """End this process by then, whatever it waits for. What it has not tidied up goes when a run begins."""

    def leave() -> None:
        log(f"it has not come to its end within {seconds:g} s, and is ended")
        os._exit(0)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()


def say_ready(**facts: Any) -> None:
    """Report to the process that started this one that it can be used now."""
    sys.stdout.write(msgspec.json.encode(facts).decode() + "\n")
    sys.stdout.flush()


def log(text: str) -> None:
    """One line into this process's log, which is its standard error."""
    write_error(f"chimbuko: {visible(text)}\n")


def write_error(text: str) -> None:
    """Write to standard error. A full disk, a closed pipe or a lost terminal must not end the process.

    Not by way of ``sys.stderr``: what that could not write it tries again at the end of the process, which
    then has an exit code of its own.
    """
    rest = text.encode(errors="replace")
    with suppress(OSError):
        while rest:
            rest = rest[os.write(2, rest) :]


def do_without_scipy() -> None:
    """Keep numba from loading scipy's linear algebra, which no kernel uses, where it is installed.

    It would cost each process 0.2 s and 10 MB. Before numba compiles or loads its first kernel.
    """
    sys.modules["scipy"] = None  # type: ignore[assignment]
