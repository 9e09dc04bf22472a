"""The files of a spool: segments, each a row of frames with their lengths and sequence numbers."""

from __future__ import annotations

import fcntl
import itertools
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FRAME = struct.Struct("<IQ")
"""Before each frame: its length, and its sequence number."""
SUFFIX = ".spool"


def spools_in(folder: Path) -> list[Path]:
    """All spools under ``folder`` that hold anything."""
    return sorted({path.parent for path in folder.rglob(f"*{SUFFIX}") if path.stat().st_size})


def remove_acknowledged(folder: Path, sequence: int) -> None:
    """Remove segments all of whose frames are acknowledged, except the last, which is being written."""
    paths = segment_paths(folder)
    if len(paths) < 2 or first_sequence(paths[1]) > sequence + 1:
        return
    with locked(folder):
        for path, following in itertools.pairwise(paths):
            if first_sequence(following) <= sequence + 1:
                path.unlink(missing_ok=True)


def segment_paths(folder: Path) -> list[Path]:
    """The segments of a spool, oldest first."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def first_sequence(path: Path) -> int:
    """Sequence number of the first frame of a segment."""
    return int(path.stem)


def frames_of(path: Path, offset: int) -> Iterator[tuple[int, int, bytes]]:
    """Frames of a segment from a byte offset on: (offset behind it, sequence, content)."""
    with path.open("rb") as file:
        file.seek(offset)
        content = file.read()
    at = 0
    while at + FRAME.size <= len(content):
        length, sequence = FRAME.unpack_from(content, at)
        end = at + FRAME.size + length
        # The last frame may be half written, for now or, after a kill, for ever.
        if end > len(content):
            return
        yield offset + end, sequence, content[at + FRAME.size : end]
        at = end


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Compaction and removal exclude each other."""
    # Of the folder itself: on a full disk there is no room for a file, and to remove must not need any.
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
