"""Choice of the folder for the streams of an application: fast, on the node, and with room to spare."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from chimbuko.capture.follow.holes import punch
from chimbuko.capture.follow.room import Room
from chimbuko.runtime.runs.scratch import is_on_network

NEEDED_BYTES = 256 << 20
"""Some seconds of all ranks of a node, where nobody reads, and what the guard keeps free."""
NEEDED_FILES = 1024
"""Each stream takes eight files and folders."""

MEMORY = Path("/dev/shm")
"""Memory of the node that every Linux has as a folder, containers too."""
_TRIED_BYTES = 64 << 10


class Choice(NamedTuple):
    """Folder for streams, and why not another."""

    folder: Path | None
    """Folder that was chosen, or None if no candidate will do."""
    left_bytes: int
    """Room that the folder has, in bytes."""
    is_memory: bool
    """Whether what is written there takes memory of the node."""
    refusals: list[str]
    """One sentence for each candidate before it, as in "/dev/shm: 12 MB of the file system are free, 256 MB
    are wanted"."""


def choose_folder(
    candidates: Sequence[Path], needed_bytes: int = NEEDED_BYTES, root: Path = Path("/")
) -> Choice:
    """Return the first of some folders that followed streams may go to. Nothing is left behind in any of
    them.

    Parameters
    ----------
    candidates
        Folders, the best first, such as ``/dev/shm`` and ``$TMPDIR``.
    needed_bytes
        Room that must be free, of the file system and, where that is memory, of the node and of all memory
        cgroups of this process.
    root
        As of ``MemoryLimits``.
    """
    refusals: list[str] = []
    for folder in candidates:
        try:
            reason = _refusal(folder, needed_bytes, root)
            if reason is None:
                room = Room(folder, root)
                return Choice(folder, room.left(needed_bytes).left_bytes, room.is_memory, refusals)
        except OSError as error:
            reason = f"it cannot be used ({error.strerror})"
        refusals.append(f"{folder}: {reason}")
    return Choice(None, 0, False, refusals)


def _refusal(folder: Path, needed_bytes: int, root: Path) -> str | None:
    """Why streams cannot go to a folder; None if they can."""
    if not folder.is_dir():
        return "there is no such folder"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return "it cannot be written"
    if is_on_network(folder):
        return "it is on a network file system"
    room = Room(folder, root)
    left = room.left(needed_bytes)
    if left.left_bytes < needed_bytes:
        return f"{_size(left.left_bytes)} of {left.of} are free, {_size(needed_bytes)} are wanted"
    files = room.free_files()
    if files is not None and files < NEEDED_FILES:
        return f"{files} more files can be made there, {NEEDED_FILES} are wanted"
    return None if _has_holes(folder) else "space of a part of a file cannot be given back there"


def _has_holes(folder: Path) -> bool:
    """Whether a file takes less space after a part of it was given back."""
    path = folder / f".chimbuko-try-{os.getpid()}"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        path.unlink()
        # Nothing that a file system could store in fewer bytes.
        os.write(file, os.urandom(_TRIED_BYTES))
        os.fsync(file)
        before = os.fstat(file).st_blocks
        try:
            punch(file, 0, _TRIED_BYTES)
        except OSError:
            return False
        os.fsync(file)
        return os.fstat(file).st_blocks < before
    finally:
        os.close(file)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{count / 1e6:.0f} MB"
