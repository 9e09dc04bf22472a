"""Folders on node-local storage that a part of a run works in."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from chimbuko.errors import ConfigError


def scratch_folder(run_id: str, part: str) -> Path:
    """The folder of one part of a run, for its owner only; the same each time, so that a part which is
    started again finds what it left.

    Raises
    ------
    ConfigError
        It cannot be made, or is not ours: others may write into the folder for temporary files, too.
    """
    folder = Path(tempfile.gettempdir()) / f"chimbuko-{run_id}-{part}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be made ({error.strerror}); set TMPDIR to a folder on local storage"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigError(f"{folder}: others than you can write there; remove it, or set TMPDIR")
    return folder
