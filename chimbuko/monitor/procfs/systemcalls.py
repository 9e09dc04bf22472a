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
    "children": (61, 247),
    "futex": (202,),
    "streams": (0, 1, 19, 20),
    "sized": (0, 1, 17, 18),
    "placed": (17, 18),
    "timed_third": (7, 271),
    "timed_fourth": (232, 281),
    "timed_fifth": (23, 270),
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
    "children": (260, 95),
    "futex": (98,),
    "streams": (63, 64, 65, 66),
    "sized": (63, 64, 67, 68),
    "placed": (67, 68),
    "timed_third": (73,),
    "timed_fourth": (22,),
    "timed_fifth": (72,),
    "poll": (73,),
    "select": (72,),
}
_NUMBERS = {"x86_64": _X86_64, "aarch64": _ARM64}.get(platform.machine(), {})

NO_CALL = -1
"""Number for no system call, or none that is known."""
PIPE = -2
"""A read or write of a socket or a pipe, which no number shows."""
NAP = -3
"""A wait for descriptors where there is none, only time to pass."""
CONDITION = -4
"""A futex that is no mutex: a condition, a semaphore, or the end of a thread."""


def _set(*names: str) -> frozenset[int]:
    return frozenset(number for name in names for number in _NUMBERS.get(name, ()))


FILES = _set("files")
SOCKETS = _set("sockets", "polls") | {PIPE}
LOCKS = _set("futexes", "file_locks")
NAPS = _set("naps") | {NAP}
CHILDREN = _set("children")
CONDITIONS = frozenset([CONDITION])
_TIMEOUT_AT = (
    dict.fromkeys(_set("timed_third"), 2)
    | dict.fromkeys(_set("timed_fourth"), 3)
    | dict.fromkeys(_set("timed_fifth"), 4)
)
"""Position of the argument that ends a wait for descriptors after a time, by system call."""
_FOR_EVER = (None, 0, 2**32 - 1, 2**64 - 1)
"""Values of that argument without a time: no pointer, and -1."""
_SIZED, _PLACED = _set("sized"), _set("placed")
"""System calls whose third argument is how many bytes they move, and whose fourth is from where on."""
STREAMS = _set("streams")
"""System calls on files that also serve sockets and pipes."""
_COUNT_AT = dict.fromkeys(_set("poll"), 1) | dict.fromkeys(_set("select"), 0)
"""Position of the argument that is the number of descriptors, by system call."""
NAP_NAMES = {
    NAP: "poll or select",
    **dict(zip(_NUMBERS.get("naps", ()), ("nanosleep", "clock_nanosleep"), strict=False)),
}
"""Names of ``NAPS`` in sentences."""
FUTEX = _set("futex")
_WAIT_BITSET, _COMMAND = 9, 0x7F
"""Operation of a futex by which the C library waits for all but its mutexes, and the bits that say which."""
_BREAKABLE = _set("polls", "naps", "futexes") | {NAP, CONDITION}
"""System calls in which a sleeper can be woken by a signal; a thread that cannot is frozen."""
_FREEZER = b"refrigerator", b"freezer_trap", b"get_signal"
"""Kernel functions in which a thread of a frozen control group sleeps; the last two belong to version 2."""


def system_call(data: bytes) -> int:
    """Return the number of the system call that a thread is in, by ``syscall``; ``NO_CALL`` where it is not
    known, and ``NAP`` or ``CONDITION`` where its arguments say that it is one.
    """
    first = data.split(b" ", 1)[0]
    if not first.isdigit() or len(first) > 4:
        return NO_CALL
    number = int(first)
    count_at = _COUNT_AT.get(number)
    if count_at is not None and argument(data, count_at) == 0:
        return NAP
    if number in FUTEX and (argument(data, 1) or 0) & _COMMAND == _WAIT_BITSET:
        return CONDITION
    return number


def argument(data: bytes, at: int) -> int | None:
    """Return an argument of the system call that a thread is in, by ``syscall``; None if it is damaged."""
    try:
        return int(data.split()[at + 1], 16)
    except (IndexError, ValueError):
        return None


def polls_for_a_time(data: bytes) -> bool:
    """Return whether a thread waits for descriptors until a time that it has named, by ``syscall``."""
    first = data.split(b" ", 1)[0]
    at = _TIMEOUT_AT.get(int(first)) if first.isdigit() else None
    return at is not None and argument(data, at) not in _FOR_EVER


def moved_at(data: bytes, position: int) -> tuple[int, int]:
    """Return the first byte of a file that a system call on it moves, and the one behind the last; both the
    position where it moves none.

    Parameters
    ----------
    data
        Text of ``syscall``.
    position
        Position of the descriptor.
    """
    number = system_call(data)
    begin = (argument(data, 3) or 0) if number in _PLACED else position
    return begin, begin + ((argument(data, 2) or 0) if number in _SIZED else 0)


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
