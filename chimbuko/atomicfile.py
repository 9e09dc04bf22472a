"""Files that a reader finds whole: the old text or the new one, never half of it. Loads nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_atomically(path: Path | str, data: bytes, mode: int = 0o666) -> None:
    """Write a file in place of what was there.

    Parameters
    ----------
    mode
        Who may read and write it, less the umask.

    Raises
    ------
    OSError
        It cannot be written; what was there stays, and nothing else is left.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}-{os.getpid()}")
    with suppress(FileNotFoundError):
        # Left by a process of the same number that died just here.
        os.unlink(temporary)
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        # Half of it would take the room from others.
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
