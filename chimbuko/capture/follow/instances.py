"""Several instances of a program, one after the other, that all write their streams under one path.

Each would overwrite the files of the one before. So its reader sets the files of an instance aside as soon as
that has ended, in one step: another folder, an empty one, is at their path from then on. Writers keep what
they have open, and never know.

An instance is known by its first rank, the rank in the run of what takes itself for rank 0: a link in its
folder has that number, and so has the name of the folder that was set aside, as ``tau-metrics-app-2.bp.4``.
ADIOS2 removes what is in the folder, links too, when it opens the files: the number is noted when the stream
appears, and once more when there is a step.
"""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from chimbuko.core.errors import TraceFormatError

FIRST_RANK: Final = "first-rank"
"""Link in the folder of a stream. What it points to is a number."""
_ASIDE = re.compile(r"(?P<stream>.+\.bp)\.(?P<first>0|[1-9]\d{0,8})")
_AT_CWD: Final = -100
_EXCHANGE: Final = 2
_LONGEST_TRIES: Final = 100
_libc = ctypes.CDLL(None, use_errno=True)


def number(stream: Path, first_rank: int) -> bool:
    """Note the first rank of the instance that writes a stream; false where that cannot be noted."""
    try:
        os.symlink(str(first_rank), stream / FIRST_RANK)
    except OSError:
        return False
    return True


def first_rank_of(stream: Path) -> int | None:
    """First rank of the instance that writes a stream; None if it has none yet."""
    try:
        return int(os.readlink(stream / FIRST_RANK))
    except (OSError, ValueError):
        return None


def aside_of(stream: Path, first_rank: int) -> Path:
    """Return the folder with the files of an instance that has ended."""
    return stream.with_name(f"{stream.name}.{first_rank}")


def parse_aside(path: Path) -> tuple[Path, int] | None:
    """Return the path and first rank of the stream whose files were set aside; None if this is no such
    folder.
    """
    match = _ASIDE.fullmatch(path.name)
    return None if match is None else (path.with_name(match["stream"]), int(match["first"]))


def empty_aside(stream: Path, first_rank: int) -> None:
    """Give back the space of an instance that has ended, and was read; the folder says that there was one."""
    with suppress(OSError):
        for entry in aside_of(stream, first_rank).iterdir():
            if entry.name != FIRST_RANK:
                entry.unlink()


class InstanceFiles:
    """The files of one instance, wherever they are.

    Parameters
    ----------
    stream
        The path under which it is, or was, written.
    first_rank
        First rank of the instance.

    Raises
    ------
    TraceFormatError
        They are nowhere.
    """

    def __init__(self, stream: Path, first_rank: int) -> None:
        self._stream = stream
        self._first_rank = first_rank
        self._folder = self._opened()
        self.path = Path(f"/proc/self/fd/{self._folder}")
        """Leads to them for as long as this process has them open, also once they were set aside."""

    def number(self) -> None:
        """Note which instance it is."""
        number(self.path, self._first_rank)

    def set_aside(self) -> None:
        """Make room for the next instance; where the file system cannot, everything stays as it is."""
        aside = aside_of(self._stream, self._first_rank)
        if not self._is_numbered or not self._is_at(self._stream):
            return
        with suppress(OSError):
            aside.mkdir(mode=0o700)
            if _libc.renameat2(_AT_CWD, os.fsencode(self._stream), _AT_CWD, os.fsencode(aside), _EXCHANGE):
                aside.rmdir()

    def close(self) -> None:
        """Close the folder."""
        os.close(self._folder)

    @property
    def _is_numbered(self) -> bool:
        return first_rank_of(self.path) == self._first_rank

    def _is_at(self, path: Path) -> bool:
        try:
            return os.path.samestat(path.stat(), os.fstat(self._folder))
        except OSError:
            return False

    def _opened(self) -> int:
        # Set aside between two looks they would be at neither place.
        for _ in range(_LONGEST_TRIES):
            for path in (aside_of(self._stream, self._first_rank), self._stream):
                with suppress(OSError):
                    folder = os.open(path, os.O_PATH | os.O_DIRECTORY)
                    found = first_rank_of(Path(f"/proc/self/fd/{folder}"))
                    # Files that are not written for us have no number.
                    if found == self._first_rank or (found is None and path == self._stream):
                        return folder
                    os.close(folder)
        raise TraceFormatError(f"{self._stream}: no such trace stream")
