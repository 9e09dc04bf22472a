"""Which process reads a stream: one at a time."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

READER = "reader"
"""File of a stream's folder with the id of the process that reads it."""


def claim(folder: Path) -> int:
    """Wait until no other process reads the stream, and keep others from it; the file says which one does.

    A predecessor that cannot end at once holds it until it has left its stream in order.
    """
    file = os.open(folder / READER, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.lockf(file, fcntl.LOCK_EX)
    os.ftruncate(file, 0)
    # The lock is what counts; who holds it is for people, and on a full disk they go without.
    with suppress(OSError):
        os.pwrite(file, str(os.getpid()).encode(), 0)
    return file
