"""File descriptor that Chimbuko keeps open in a program, which does not know of it."""

from __future__ import annotations

import errno
import fcntl
import os

_LEAST_NUMBER = 256
"""Least number of a kept descriptor: programs that become daemons close all, and open their own from 0 on."""


class KeptDescriptor:
    """Descriptor that the program may close. Another one that it opens under the number is not touched.

    Parameters
    ----------
    low
        Descriptor, which is moved to a number that programs hardly reach. Call ``check`` before each use.
    """

    def __init__(self, low: int) -> None:
        try:
            self.number = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _LEAST_NUMBER)
            os.close(low)
        except OSError:
            self.number = low
        self._identity = _identity(self.number)

    def check(self) -> None:
        """Check that the descriptor is still ours.

        Raises
        ------
        OSError
            The program has closed it.
        """
        if not self.is_ours():
            raise OSError(errno.EBADF, "the program has closed it")

    def is_ours(self) -> bool:
        """Whether the descriptor is still ours."""
        try:
            return _identity(self.number) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        """Close the descriptor, in this process only."""
        if self.is_ours():
            os.close(self.number)


def _identity(number: int) -> tuple[int, int]:
    state = os.fstat(number)
    return state.st_dev, state.st_ino
