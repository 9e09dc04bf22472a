"""Tally of the entries of a list that any process of a program has met, in shared memory."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

_NAME = "chimbuko-tally"


class Tally:
    """Marks for the entries of a list; a mark is never removed.

    Parameters
    ----------
    descriptor
        Descriptor of the shared memory; None where the marks are this process's own.
    """

    def __init__(self, descriptor: int | None, size: int) -> None:
        self.place = "" if descriptor is None else f"/proc/{os.getpid()}/fd/{descriptor}"
        """Path by which other processes find the tally."""
        self._marks = mmap.mmap(-1 if descriptor is None else descriptor, size)

    @classmethod
    def of(cls, size: int) -> Self:
        """Make a tally. Its memory is freed when this process ends, however it does."""
        try:
            descriptor = os.memfd_create(_NAME)
            os.ftruncate(descriptor, size)
        except OSError:
            return cls(None, size)
        return cls(descriptor, size)

    @classmethod
    def at(cls, place: str, size: int) -> Self:
        """Return the tally of another process; a new one where that process has ended."""
        with suppress(OSError):
            # The program may have closed the descriptor, and opened a file of its own under that number.
            if _NAME in os.readlink(place):
                descriptor = os.open(place, os.O_RDWR | os.O_CLOEXEC)
                try:
                    return cls(descriptor, size)
                finally:
                    os.close(descriptor)
        return cls(None, size)

    def count(self, at: int) -> None:
        """Mark an entry."""
        self._marks[at] = 1

    def has(self, at: int) -> bool:
        """Whether an entry is marked."""
        return bool(self._marks[at])
