"""Gives the space of analysed steps back to the node, without a change in the length of a file."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from pathlib import Path

from chimbuko.follow.steps import DATA

FIRST_SUFFIX = ".first"
"""File beside a stream: number of the first step whose data is still there."""

_PUNCH_HOLE_KEEP_SIZE = 0x03
_PAGE = mmap.PAGESIZE
_CELL = struct.Struct("<q")
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
    """

    def __init__(self, stream: Path) -> None:
        self._path = stream.with_name(stream.name + FIRST_SUFFIX)

    def get(self) -> int:
        """Its number; 0 where nothing was given back."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return 0
        return int(_CELL.unpack(content)[0]) if len(content) == _CELL.size else 0

    def raise_to(self, step: int) -> None:
        """Data before ``step`` is about to go."""
        if step > self.get():
            # One write of eight bytes is seen whole or not at all.
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(file, _CELL.pack(step), 0)
            finally:
                os.close(file)


class DataFile:
    """The data of one followed stream, of which more and more is given back.

    Parameters
    ----------
    stream
        Its folder; the data file need not exist yet.
    """

    def __init__(self, stream: Path) -> None:
        self._path = stream / DATA
        self._first = FirstStep(stream)
        self._given_back_to = 0

    @property
    def held_bytes(self) -> int:
        """Space that it takes."""
        try:
            return os.stat(self._path).st_blocks * 512
        except FileNotFoundError:
            return 0

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
        file = os.open(self._path, os.O_RDWR)
        try:
            # From the beginning: another process may have given back a part, or have died before it did.
            punch(file, self._given_back_to, end)
        finally:
            os.close(file)
        self._given_back_to = end // _PAGE * _PAGE
