"""Secrets of a run, each in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from chimbuko.core.atomicfile import write_atomically


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whatever was there; a reader sees all of the text."""
    write_atomically(path, text.encode(), mode=0o600)


def kept_token(path: Path, given: str | None = None) -> str:
    """A token that stays the same: the one that is given, or the one that is kept there, or else a new one.

    Where it cannot be kept, as in the folder of somebody else, it is a new one each time. What others have
    put there is no token of ours.
    """
    token = given or _found(path) or secrets.token_urlsafe(24)
    with suppress(OSError):
        write_secret(path, token)
    return token


def _found(path: Path) -> str:
    with suppress(OSError, ValueError):
        file = path.lstat()
        if stat.S_ISREG(file.st_mode) and file.st_uid == os.geteuid() and not file.st_mode & 0o077:
            return path.read_text()
    return ""
