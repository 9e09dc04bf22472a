"""How much room a folder has left: of its file system and, where that is memory, of who is charged for it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from chimbuko.capture.follow.memory import Headroom, MemoryLimits

if TYPE_CHECKING:
    from pathlib import Path

_IN_MEMORY = frozenset({0x01021994, 0x858458F6, 0x958458F6})
"""The kernel's numbers for tmpfs, ramfs and hugetlbfs."""
_libc = ctypes.CDLL(None, use_errno=True)


class Room:
    """The room in a folder, as it changes.

    Parameters
    ----------
    folder
        It exists.
    root
        As of ``MemoryLimits``.
    """

    def __init__(self, folder: Path | str, root: Path | str = "/") -> None:
        self._folder = os.fspath(folder)
        self._root = root
        self.is_memory = is_memory(folder)
        self.look_anew(["self"])

    def look_anew(self, pids: Iterable[int | str]) -> None:
        """Find the limits of these processes, which write there; limits come and go."""
        self._limits = [MemoryLimits(pid, self._root) for pid in pids] if self.is_memory else []

    def left(self, enough_bytes: int) -> Headroom:
        """The least that is left; where it is more than ``enough_bytes``, it may be more than is said.

        Raises
        ------
        OSError
            The folder is gone.
        """
        system = os.statvfs(self._folder)
        # A tmpfs without a size has no blocks: then memory alone is the limit.
        free = system.f_bavail * system.f_frsize if system.f_blocks else 1 << 62
        found = [headroom for limits in self._limits if (headroom := limits.headroom(enough_bytes))]
        return min([*found, Headroom(free, "the file system")])

    def free_files(self) -> int | None:
        """How many files can still be made; None where the file system knows no limit."""
        system = os.statvfs(self._folder)
        return system.f_favail if system.f_files else None


def is_memory(folder: Path | str) -> bool:
    """Whether files in a folder are pages of memory.

    Raises
    ------
    OSError
        The folder is not there.
    """
    answer = (ctypes.c_long * 32)()
    if _libc.statfs(os.fsencode(folder), ctypes.byref(answer)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(folder))
    return (answer[0] & 0xFFFFFFFF) in _IN_MEMORY
