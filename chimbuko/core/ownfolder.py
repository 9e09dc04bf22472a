"""Folders of ours in a place where others may write, too, such as that for temporary files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from chimbuko.core.errors import ConfigError


def is_own_folder(folder: Path) -> bool:
    """Whether it is a folder, and no link to one, that is this user's and that no other user can enter."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def make_own_folder(folder: Path) -> None:
    """Make it, or check the one that is there.

    Raises
    ------
    ConfigError
        It cannot be made, or is not ours alone.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be made ({error.strerror}); set TMPDIR to a folder on local storage"
        ) from error
    if not is_own_folder(folder):
        raise ConfigError(f"{folder}: others than you can write there; remove it, or set TMPDIR")
