"""System calls in which a thread sleeps, by what it waits for.

Numbers are those of Linux on x86-64 and on arm64 (``asm/unistd_64.h``, ``asm-generic/unistd.h``).
"""

from __future__ import annotations

import platform

_X86_64 = {
    "files": (0, 1, 17, 18, 19, 20, 73, 74, 75, 77, 162, 187, 277, 285, 295, 296, 306, 327, 328),
    "sockets": (7, 23, 42, 43, 44, 45, 46, 47, 232, 270, 271, 281, 288, 299, 307),
    "locks": (202, 449),
}
"""read, write, pread64, pwrite64, readv, writev, flock, fsync, fdatasync, ftruncate, sync, readahead,
sync_file_range, fallocate, preadv, pwritev, syncfs, preadv2, pwritev2;
poll, select, connect, accept, sendto, recvfrom, sendmsg, recvmsg, epoll_wait, pselect6, ppoll, epoll_pwait,
accept4, recvmmsg, sendmmsg; futex, futex_waitv."""
_ARM64 = {
    "files": (32, 46, 47, 63, 64, 65, 66, 67, 68, 69, 70, 81, 82, 83, 84, 213, 267, 286, 287),
    "sockets": (22, 72, 73, 202, 203, 206, 207, 211, 212, 242, 243, 269),
    "locks": (98, 449),
}
_NUMBERS = {"x86_64": _X86_64, "aarch64": _ARM64}.get(platform.machine(), {})

FILES = frozenset(_NUMBERS.get("files", ()))
SOCKETS = frozenset(_NUMBERS.get("sockets", ()))
LOCKS = frozenset(_NUMBERS.get("locks", ()))
