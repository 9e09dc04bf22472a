"""Allocation of the files of a stream, which lie in ``$TMPDIR``: that may be full, and have room again later.

A page of a mapped file for which there is no room kills the process that touches it. So what is going to be
written is allocated before, page by page as it is needed, and a lack of room is an ``OSError`` in one place.
"""

from __future__ import annotations

import errno
import os
from mmap import PAGESIZE, mmap
from pathlib import Path

import numpy as np

from chimbuko.core.arrays import Int64Array, distinct


class SparseFile:
    """A mapped file of which only the pages in use take room.

    Parameters
    ----------
    path
        File, made if needed.
    size_bytes
        Size of the file, and of the mapping.

    Raises
    ------
    OSError
        The file cannot be made, or there is no address space for it.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        """Descriptor of the file."""
        try:
            os.ftruncate(self.file, size_bytes)
            self.memory = mmap(self.file, size_bytes)
        except OSError:
            os.close(self.file)
            raise
        self._sizes_bytes: dict[int, int] = {}
        """Number of bytes that are allocated at each offset, since the same ones are asked for again and
        again.
        """
        self._is_allocated = np.zeros(-(-size_bytes // PAGESIZE), np.bool_)

    def allocate(self, at: int, size_bytes: int) -> None:
        """Allocate these bytes: from then on they can be read and written.

        Raises
        ------
        OSError
            There is no room.
        """
        if size_bytes <= self._sizes_bytes.get(at, 0):
            return
        first, behind = at // PAGESIZE, -(-(at + size_bytes) // PAGESIZE)
        self._allocate(first + np.flatnonzero(~self._is_allocated[first:behind]))
        self._sizes_bytes[at] = size_bytes

    def allocate_rows(self, at: int, row_bytes: int, rows: Int64Array) -> None:
        """Allocate some rows of a table that begins at ``at``."""
        begins = at + rows * row_bytes
        ends = begins + row_bytes - 1
        most = -(-row_bytes // PAGESIZE) + 1
        pages = np.minimum(
            begins[:, np.newaxis] // PAGESIZE + np.arange(most), ends[:, np.newaxis] // PAGESIZE
        )
        pages = distinct(pages)
        self._allocate(pages[~self._is_allocated[pages]])

    def _allocate(self, pages: Int64Array) -> None:
        # Where a file system cannot allocate, the C library writes to each block instead.
        for run in np.split(pages, np.flatnonzero(np.diff(pages) > 1) + 1):
            if len(run):
                at, behind = int(run[0]) * PAGESIZE, (int(run[-1]) + 1) * PAGESIZE
                os.posix_fallocate(self.file, at, min(behind, self._size_bytes) - at)
                self._is_allocated[run] = True


def allocated(path: Path, size_bytes: int) -> mmap:
    """Return a file in memory, made if needed, all of it allocated.

    Raises
    ------
    OSError
        There is no room for it.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(file, 0, size_bytes)
        return mmap(file, size_bytes)
    finally:
        os.close(file)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether there is no memory, or no address space (``ulimit -v``): room on a disk does not
    help.
    """
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
