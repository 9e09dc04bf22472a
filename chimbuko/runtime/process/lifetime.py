"""Lifetime of our own processes: how they end with their parents, which end first where memory runs out, and
how they report.

Where memory runs out our processes end, and not the application's.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from typing import Any

import msgspec

from chimbuko.core.names import visible
from chimbuko.runtime.process.signals import END, ignore_others

OOM_VARIABLE = "CHIMBUKO_OOM_SCORE_ADJ"
"""Environment variable of our own processes: the ``oom_score_adj`` that the application has beside them."""


class Sacrifice(IntEnum):
    """Rank of a process of ours in being killed where memory runs out, always before the application.

    The values are added to the application's ``oom_score_adj``. A point counts as a thousandth of all memory,
    or of what its cgroup may use.
    """

    LAUNCHER = 40
    """Launcher, with which all other processes of ours end. The application's exit code is passed on by the
    launcher's parent, which has the application's own value.
    """
    GUARD = 50
    """Guard, which protects the application, and takes little."""
    BROKER = 200
    SERVICE = 300
    AGENT = 350
    DASHBOARD = 400
    WRITER = 450
    """Writer beside each rank of a traced Python program: without it the rank goes on, untraced."""
    READER = 500
    """Reader of a stream: there is one for each rank, and another can take over."""


def oom_score(sacrifice: Sacrifice) -> int:
    """Return the ``oom_score_adj`` of a process that this one starts."""
    return min(1000, oom_score_of_application() + sacrifice)


def set_oom_score(score: int, pid: int | str = "self") -> None:
    """Set a process's ``oom_score_adj``, where that is possible."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score))


def oom_score_of_application() -> int:
    """Return the ``oom_score_adj`` of the application beside us."""
    try:
        return int(os.environ.get(OOM_VARIABLE) or Path("/proc/self/oom_score_adj").read_text())
    except (OSError, ValueError):
        return 0


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def die_with_parent(number: int = END) -> None:
    """End this process when the one that started it is gone, however it went; for ``preexec_fn``.

    The end of the thread that started it counts, too: that must be one which stays.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, number)


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ARENAS = 2
_KEPT_BYTES = 4 << 20
"""Size of arrays from which on, and of free memory beyond which, the system gets it back. With 128 kB nearly
each of NumPy's arrays fetched its pages anew: a fifth of the CPU time of analysing a recorded trace."""


def give_freed_memory_back() -> None:
    """Have memory that this process frees go back to the system, for one that is to run for days.

    By itself glibc gives each thread an arena of its own, and keeps up to 64 MB for what may be asked for
    next, more with each large array that was freed: an agent grew from 31 to 56 MB in half an hour.
    """
    # Another C library may not have it.
    with suppress(AttributeError):
        _libc.mallopt(_M_ARENA_MAX, _ARENAS)
        _libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        _libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)


def become_ours(score: int) -> None:
    """Become a process of ours, for ``preexec_fn``: it ends when its parent says so, or is gone, and where
    memory runs out before that.
    """
    set_oom_score(score)
    ignore_others()
    die_with_parent()


def end_within(seconds: float) -> None:
    """End this process within a time, whatever it waits for. What it has not tidied up is removed when a run
    begins.
    """

    def leave() -> None:
        log(f"it did not end within {seconds:g} s, and is killed")
        os._exit(0)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()


def say_ready(**facts: Any) -> None:
    """Report to the process that started this one that it can be used now."""
    sys.stdout.write(msgspec.json.encode(facts).decode() + "\n")
    sys.stdout.flush()


LOG_VARIABLE = "CHIMBUKO_LOG"
"""Environment variable that is ``debug`` for lines with their time and process; ``chimbuko -v`` sets it."""
one_of_several: ContextVar[str] = ContextVar("one of several", default="")
"""Name of the service that this thread is, where several share a process, and so its log."""


def log(text: str) -> None:
    """Write one line into this process's log, which is its standard error."""
    name = one_of_several.get()
    line = f"{name}: {visible(text)}" if name else visible(text)
    if is_verbose():
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        line = f"{now} [{os.getpid()}] {line}"
    write_error(f"chimbuko: {line}\n")


def is_verbose() -> bool:
    """Return whether lines tell when and where they were written, and errors what they came from."""
    return os.environ.get(LOG_VARIABLE) == "debug"


def write_error(text: str) -> None:
    """Write to standard error. A full disk, a closed pipe or a lost terminal must not end the process.

    It does not use ``sys.stderr``: Python tries again at the end of the process to write what that could not,
    and then exits with a code of its own.
    """
    rest = text.encode(errors="replace")
    with suppress(OSError):
        while rest:
            rest = rest[os.write(2, rest) :]
