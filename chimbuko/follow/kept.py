"""Keeps the whole of a followed stream: copies behind the reader what is about to be given back."""

from __future__ import annotations

import shutil
from pathlib import Path

from chimbuko.follow.steps import DATA, INDEX
from chimbuko.trace.schema import LOST_STEPS

CHUNK_BYTES = 1 << 20
METADATA = (INDEX, "md.0", "mmd.0")


class KeptTrace:
    """The copy of one stream, as a recorded one that ``chimbuko run --trace`` reads.

    Parameters
    ----------
    stream
        Folder of the stream that is being written.
    folder
        Where the copy goes, under the stream's own name; made if need be.
    """

    def __init__(self, stream: Path, folder: Path) -> None:
        self._stream = stream
        self._copy = folder / stream.name
        self._copy.mkdir(parents=True, exist_ok=True)
        data = self._copy / DATA
        # What an earlier process has copied is there.
        self._copied_to = data.stat().st_size if data.exists() else 0

    def copy_until(self, end: int) -> None:
        """Copy the data before a position that is not copied yet.

        Raises
        ------
        OSError
            There is no room for it.
        """
        if end <= self._copied_to:
            return
        left = end - self._copied_to
        with (self._stream / DATA).open("rb") as source, (self._copy / DATA).open("ab") as target:
            source.seek(self._copied_to)
            while left and (chunk := source.read(min(left, CHUNK_BYTES))):
                target.write(chunk)
                left -= len(chunk)
        self._copied_to = end - left

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
        self.copy_until((self._stream / DATA).stat().st_size)
        # What else is in the folder says how far it was read and given back.
        for path in (self._stream / name for name in METADATA):
            if path.exists():
                shutil.copyfile(path, self._copy / path.name)
