"""System calls in which a thread sleeps, by what it waits for.

Numbers are those of Linux on x86-64 and on arm64 (``asm/unistd_64.h``, ``asm-generic/unistd.h``).
"""

from __future__ import annotations

import platform

_X86_64 = {
    "files": (0, 1, 17, 18, 19, 20, 74, 75, 77, 162, 187, 277, 285, 295, 296, 306, 327, 328),
    "sockets": (42, 43, 44, 45, 46, 47, 288, 299, 307),
    "polls": (7, 271, 23, 270, 232, 281),
    "futexes": (202, 449),
    "file_locks": (72, 73),
    "naps": (35, 230),
    "streams": (0, 1, 19, 20),
    "poll": (7, 271),
    "select": (23, 270),
}
"""Numbers of system calls on x86-64, by kind, one kind in each group of lines."""
_ARM64 = {
    "files": (46, 47, 63, 64, 65, 66, 67, 68, 69, 70, 81, 82, 83, 84, 213, 267, 286, 287),
    "sockets": (202, 203, 206, 207, 211, 212, 242, 243, 269),
    "polls": (73, 72, 22),
    "futexes": (98, 449),
    "file_locks": (25, 32),
    "naps": (101, 115),
    "streams": (63, 64, 65, 66),
    "poll": (73,),
    "select": (72,),
}
_NUMBERS = {"x86_64": _X86_64, "aarch64": _ARM64}.get(platform.machine(), {})

NO_CALL = -1
"""None, or none that is known."""
PIPE = -2
"""A read or write of a socket or a pipe, which no number shows."""


def _set(*names: str) -> frozenset[int]:
    return frozenset(number for name in names for number in _NUMBERS.get(name, ()))


FILES = _set("files")
SOCKETS = _set("sockets", "polls") | {PIPE}
LOCKS = _set("futexes", "file_locks")
STREAMS = _set("streams")
"""System calls on files that also serve sockets and pipes."""
_COUNT_AT = dict.fromkeys(_set("poll"), 1) | dict.fromkeys(_set("select"), 0)
"""Position of the argument that is the number of descriptors, by system call."""
_BREAKABLE = _set("polls", "naps", "futexes")
"""System calls in which a sleeper can be woken by a signal; a thread that cannot is frozen."""
_FREEZER = b"refrigerator", b"freezer_trap", b"get_signal"
"""Kernel functions in which a thread of a frozen control group sleeps; the last two belong to version 2."""


def system_call(data: bytes) -> int:
    """Number of the system call that a thread is in, by ``syscall``; ``NO_CALL`` where it is not known, and
    of those which wait for descriptors where there is none, only time to pass.
    """
    first = data.split(b" ", 1)[0]
    if not first.isdigit() or len(first) > 4:
        return NO_CALL
    number = int(first)
    count_at = _COUNT_AT.get(number)
    is_nap = count_at is not None and data.split(b" ", count_at + 2)[count_at + 1 : -1] == [b"0x0"]
    return NO_CALL if is_nap else number


def descriptor(data: bytes) -> str:
    """The descriptor that a thread reads or writes, by ``syscall``; empty where it is damaged."""
    try:
        return str(int(data.split()[1], 16))
    except (IndexError, ValueError):
        return ""


def is_frozen(state: bytes, call: int, place: bytes) -> bool:
    """Whether a thread that sleeps does so as its control group is frozen.

    Parameters
    ----------
    state
        The kernel's letter.
    call
        The system call that it is in.
    place
        What ``wchan`` says.
    """
    return any(name in place for name in _FREEZER) or (state == b"D" and call in _BREAKABLE)
