"""What our own processes have in common: words, names that they hold, and how they end."""

from __future__ import annotations

import ctypes
import hashlib
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from chimbuko.errors import ServiceError
from chimbuko.process.oomscore import set_oom_score
from chimbuko.process.signals import END, ignore_others
from chimbuko.visible import visible

UNIX_SOCKETS = Path("/proc/net/unix")

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
    with suppress(OSError):
        os.write(2, text.encode(errors="replace"))


def hold(name: str) -> socket.socket:
    """Hold a name on this node until this process ends, however it ends, or closes what is returned.

    Raises
    ------
    ServiceError
        Another process holds it.
    """
    claim = socket.socket(socket.AF_UNIX)
    try:
        # An address that begins with 0 is in no folder, and nothing is left of it.
        claim.bind(f"\0{_address(name)}")
    except OSError:
        claim.close()
        raise ServiceError(f"{name}: another process is at work there already") from None
    return claim


def is_held(name: str) -> bool:
    """Whether a process of this node holds a name. To ask does not get in the way of who is about to."""
    return _address(name) in UNIX_SOCKETS.read_text()


def _address(name: str) -> str:
    # There is room for 107 bytes.
    return f"chimbuko {hashlib.sha256(name.encode()).hexdigest()}"


def do_without_scipy() -> None:
    """Keep numba from loading scipy's linear algebra, which no kernel uses, where it is installed.

    It would cost each process 0.2 s and 10 MB. Before numba compiles or loads its first kernel.
    """
    sys.modules["scipy"] = None  # type: ignore[assignment]
