"""Offsets of the steps of a BP5 stream in its data file, while the stream is being written.

The facts about ``md.idx`` are those of ADIOS2 2.7 to 2.12: a header of 64 bytes, then records of one letter,
a length and as many bytes: ``s`` for a step (position and size of its metadata, number of flushes, position
and size of each flush, position of what was not flushed), ``w`` for the writers.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The guard does without pathlib, which would be a sixth of its memory.
    from pathlib import Path

INDEX = "md.idx"
DATA = "data.0"
METADATA = "md.0"

_HEADER_BYTES = 64
_ACTIVE_AT = 39
_CHUNK_BYTES = 1 << 20
_RECORD = struct.Struct("<cQ")
_NUMBER = struct.Struct("<Q")
_POSITION = struct.Struct("<QQ")
_METADATA_HEAD = struct.Struct("<QQQ")
_FLUSHES_AT, _FLUSH_AT = 16, 24
_STEP = b"s"


def is_closed(index: Path | str) -> bool:
    """Whether the writer of a stream has closed it; ``index`` is its ``md.idx``.

    Raises
    ------
    OSError
        It cannot be read.
    """
    file = os.open(index, os.O_RDONLY)
    try:
        header = os.pread(file, _HEADER_BYTES, 0)
    finally:
        os.close(file)
    return len(header) == _HEADER_BYTES and header[_ACTIVE_AT] == 0


class StepIndex:
    """The steps of one stream, as far as they are complete.

    Parameters
    ----------
    stream
        Folder of the stream, ending in ``.bp``; its files need not exist yet.
    """

    def __init__(self, stream: Path | str) -> None:
        self._path = os.path.join(stream, INDEX)
        self._metadata_path = os.path.join(stream, METADATA)
        self._read_to = 0
        self._file_number = 0
        self._begins = array("Q")
        self._metadata_ends = array("Q")
        self._forgotten = 0
        self.first_metadata_end = 0
        """End of the metadata of step 0, which has most names, in bytes."""
        self.restarts = 0
        """Number of times that another writer has opened a stream of the same name: steps count from 0 again.
        """
        self.has_ended = False
        """Whether the writer has closed the stream."""

    @property
    def count(self) -> int:
        """Number of complete steps since the stream began."""
        return self._forgotten + len(self._begins)

    def begin(self, step: int) -> int:
        """Return the offset where the data of a complete step begins, in bytes; steps that were forgotten
        begin at 0.
        """
        return self._begins[step - self._forgotten] if step >= self._forgotten else 0

    def begins(self, step: int) -> Sequence[int]:
        """Return the offsets where the data of all complete steps from ``step`` on begins; it was not
        forgotten.
        """
        return self._begins[max(step - self._forgotten, 0) :]

    def metadata_end(self, step: int) -> int:
        """Return the offset where the metadata of a complete step ends, in bytes; 0 for steps that were
        forgotten.
        """
        return self._metadata_ends[step - self._forgotten] if step >= self._forgotten else 0

    def defines_names(self, step: int) -> bool:
        """Whether attributes came with a step: the third number of its metadata is their size."""
        begin = self.metadata_end(step - 1) if step else 0
        try:
            file = os.open(self._metadata_path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            head = os.pread(file, _METADATA_HEAD.size, begin)
        finally:
            os.close(file)
        return len(head) == _METADATA_HEAD.size and _METADATA_HEAD.unpack(head)[2] > 0

    def step_at(self, position: int) -> int:
        """Return the complete step whose data, or the gap behind it, lies at a position; 0 if there is
        none.
        """
        return self._forgotten + max(bisect_right(self._begins, position) - 1, 0)

    def forget_before(self, step: int) -> None:
        """Nobody will ask for earlier steps any more: a day of steps takes no memory."""
        step = min(step, self.count)
        if step - self._forgotten > 1024:
            del self._begins[: step - self._forgotten]
            del self._metadata_ends[: step - self._forgotten]
            self._forgotten = step

    def read(self) -> int:
        """Take in what the writer has completed; returns how many steps there are."""
        try:
            file = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return self.count
        try:
            # First the flag: what is written after it was cleared, nobody writes.
            header = os.pread(file, _HEADER_BYTES, 0)
            state = os.fstat(file)
            if state.st_size < self._read_to or state.st_ino != (self._file_number or state.st_ino):
                self._begin_again()
            self._file_number = state.st_ino
            if len(header) < _HEADER_BYTES:
                return self.count
            self.has_ended = header[_ACTIVE_AT] == 0
            self._read_to = max(self._read_to, _HEADER_BYTES)
            content = os.pread(file, _CHUNK_BYTES, self._read_to)
            while taken := self._take(content):
                self._read_to += taken
                # Of a whole chunk the end is missing; of less than that there is no more.
                content = os.pread(file, _CHUNK_BYTES, self._read_to) if len(content) == _CHUNK_BYTES else b""
        finally:
            os.close(file)
        return self.count

    def _begin_again(self) -> None:
        self._begins = array("Q")
        self._metadata_ends = array("Q")
        self._read_to = self._forgotten = 0
        self.has_ended = False
        self.restarts += 1

    def _take(self, content: bytes) -> int:
        """Take in whole records; returns how many bytes these are."""
        at = 0
        while at + _RECORD.size <= len(content):
            kind, length = _RECORD.unpack_from(content, at)
            body = at + _RECORD.size
            if body + length > len(content):
                break
            if kind == _STEP:
                (flushes,) = _NUMBER.unpack_from(content, body + _FLUSHES_AT)
                # Flushed data stands before the rest; without a flush the last number is all there is.
                (begin,) = _NUMBER.unpack_from(content, body + _FLUSH_AT if flushes else body + length - 8)
                self._begins.append(begin)
                position, size = _POSITION.unpack_from(content, body)
                self._metadata_ends.append(position + size)
                if not self._forgotten and len(self._metadata_ends) == 1:
                    self.first_metadata_end = position + size
            at = body + length
        return at
