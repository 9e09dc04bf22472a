"""Keeps the whole of a followed stream: copies behind the reader what is about to be given back."""

from __future__ import annotations

import shutil
from pathlib import Path

from chimbuko.capture.follow.steps import DATA, INDEX, METADATA
from chimbuko.core.traceschema import LOST_STEPS

CHUNK_BYTES = 1 << 20
FORMATS = "mmd.0"


class KeptTrace:
    """The copy of one stream, as a recorded one that ``chimbuko run --trace`` reads.

    Parameters
    ----------
    stream
        Folder of the stream that is being written.
    copy
        Folder of the copy; made if need be.
    """

    def __init__(self, stream: Path, copy: Path) -> None:
        self._stream = stream
        self._copy = copy
        self._copy.mkdir(parents=True, exist_ok=True)

    def copied(self, name: str) -> int:
        """How much of a file is copied, in bytes."""
        copy = self._copy / name
        return copy.stat().st_size if copy.exists() else 0

    def copy_until(self, name: str, end: int) -> None:
        """Copy what stands before a position of a file, and is not copied yet.

        Raises
        ------
        OSError
            There is no room for it.
        """
        with (self._stream / name).open("rb") as source, (self._copy / name).open("ab") as target:
            # What an earlier process has copied is there.
            left = end - target.tell()
            source.seek(target.tell())
            while left > 0 and (chunk := source.read(min(left, CHUNK_BYTES))):
                target.write(chunk)
                left -= len(chunk)

    def note_lost(self, steps: range) -> None:
        """These steps were given up before they could be copied: where their data was there are zeros."""
        with (self._copy / LOST_STEPS).open("a") as file:
            file.writelines(f"{step}\n" for step in steps)

    def finish(self) -> None:
        """Copy the rest: nobody writes the stream any more.

        Raises
        ------
        OSError
            There is no room for it.
        """
        for name in (DATA, METADATA):
            self.copy_until(name, (self._stream / name).stat().st_size)
        for name in (INDEX, FORMATS):
            shutil.copyfile(self._stream / name, self._copy / name)
