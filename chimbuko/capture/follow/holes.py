"""Gives the space of steps back to the node, without a change in the length of a file."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from chimbuko.capture.follow.steps import DATA

if TYPE_CHECKING:
    from pathlib import Path

READER: Final = "first-step.reader"
GUARD: Final = "first-step.guard"
"""Links in the folder of a stream, for each of those who give back. What they point to is a number."""

_PUNCH_HOLE_KEEP_SIZE = 0x03
_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64


def punch(file: int, begin: int, end: int) -> None:
    """Give back the whole pages between two positions; they read as zeros from then on.

    Raises
    ------
    OSError
        The file system has no holes.
    """
    begin, end = -(-begin // _PAGE) * _PAGE, end // _PAGE * _PAGE
    if end > begin and _libc.fallocate(file, _PUNCH_HOLE_KEEP_SIZE, begin, end - begin):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class FirstStep:
    """The first step of a stream whose data is still there: whoever gives steps back says so before.

    So what reads zeros in place of a step can know that it does: it looks here *after* it has read.

    The number is the target of a symbolic link, which takes no block: so it can be raised, and steps given
    back, on a file system that is full to the last page.

    Parameters
    ----------
    stream
        Its folder.
    giver
        Who gives back: ``READER``, which has analysed the steps, or ``GUARD``, which drops them unread.
        Each has a number of its own, so that neither can write a lower one over the other's, and none waits
        for a lock that a stopped process holds.
    """

    def __init__(self, stream: Path | str, giver: str = READER) -> None:
        self._folder = os.fspath(stream)
        self._giver = giver

    def get(self) -> int:
        """Return the number of the last step that was given back, or 0."""
        return max(self.by(READER), self.by(GUARD))

    def by(self, giver: str) -> int:
        """Return the number of one giver; steps before that of ``GUARD`` may have gone unread."""
        try:
            return int(os.readlink(os.path.join(self._folder, giver)))
        except (OSError, ValueError):
            return 0

    def raise_to(self, step: int) -> None:
        """Data before ``step`` is about to go.

        Raises
        ------
        OSError
            It cannot be said, and so must not go.
        """
        if step > self.get():
            path = os.path.join(self._folder, self._giver)
            new = f"{path}-{os.getpid()}"
            with suppress(FileNotFoundError):
                # Left by a process of the same number that died just here.
                os.unlink(new)
            os.symlink(str(step), new)
            os.replace(new, path)


class DataFile:
    """The data of one followed stream, of which more and more is given back.

    Parameters
    ----------
    stream
        Its folder; the data file need not exist yet.
    giver
        Who gives back; see ``FirstStep``.
    """

    def __init__(self, stream: Path | str, giver: str = READER) -> None:
        self._path = os.path.join(stream, DATA)
        self._first = FirstStep(stream, giver)
        self._given_back_to = 0

    @property
    def held_bytes(self) -> int:
        """Space that the file takes, in bytes."""
        try:
            return os.stat(self._path).st_blocks * 512
        except FileNotFoundError:
            return 0

    @property
    def begin(self) -> int:
        """Offset in bytes from which nothing was given back, as the file system knows it."""
        try:
            file = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return 0
        try:
            return os.lseek(file, 0, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            # There is nothing left.
            return os.fstat(file).st_size
        finally:
            os.close(file)

    def give_back(self, first_step: int, end: int) -> None:
        """Give back all data before the position ``end``, which is that of the steps before ``first_step``.

        Raises
        ------
        OSError
            The file system has no holes.
        """
        if end // _PAGE <= self._given_back_to // _PAGE:
            return
        self._first.raise_to(first_step)
        # From the beginning: another process may have given back a part, or have died before it did.
        punch_file(self._path, self._given_back_to, end)
        self._given_back_to = end // _PAGE * _PAGE


def punch_file(path: str, begin: int, end: int) -> None:
    """Give back the whole pages between two positions of a file.

    Raises
    ------
    OSError
        The file system has no holes.
    """
    file = os.open(path, os.O_RDWR)
    try:
        punch(file, begin, end)
    finally:
        os.close(file)
