"""A descriptor of ours in the process of a program, which knows nothing of it."""

from __future__ import annotations

import errno
import fcntl
import os

_LEAST_NUMBER = 256
"""Programs that become daemons close all descriptors, and open their own from the lowest on."""


class KeptDescriptor:
    """The program may close it, and open another of that number, which is not to be touched.

    Parameters
    ----------
    low
        Is moved to a number that programs do not come to; who uses it asks ``check`` before.
    """

    def __init__(self, low: int) -> None:
        try:
            self.number = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _LEAST_NUMBER)
            os.close(low)
        except OSError:
            self.number = low
        self._identity = _identity(self.number)

    def check(self) -> None:
        """See that it is still ours.

        Raises
        ------
        OSError
            The program has closed it.
        """
        if not self.is_ours():
            raise OSError(errno.EBADF, "the program has closed it")

    def is_ours(self) -> bool:
        """Whether it still is."""
        try:
            return _identity(self.number) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        """Let go of it, in this process only."""
        if self.is_ours():
            os.close(self.number)


def _identity(number: int) -> tuple[int, int]:
    state = os.fstat(number)
    return state.st_dev, state.st_ino
