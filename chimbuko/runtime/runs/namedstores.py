"""Stores that the user has named.

Who asks a database server sends it what logs the user in: ``PGPASSWORD``, or a line of ``.pgpass``. The
folder of a run may be somebody else's, or unpacked from what somebody else has packed. So a server that a
folder names is asked only if the user has named it, too: in ``$XDG_STATE_HOME/chimbuko/stores`` is an empty
file for each, whose name is the checksum of its URL.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

STATE_VARIABLE = "XDG_STATE_HOME"
STORE_VARIABLE = "CHIMBUKO_STORE"
"""Environment variable with a store's URL: on a command line other users could read its password."""


def state_folder() -> Path:
    """Return the folder for what is kept of one command for later ones.

    Raises
    ------
    RuntimeError
        Nobody knows the user's home.
    """
    state = os.environ.get(STATE_VARIABLE)
    return (Path(state) if state else Path("~/.local/state").expanduser()) / "chimbuko"


def note_named(url: str) -> None:
    """Note that the user has named a store; where that cannot be kept it is known to the processes that this
    one starts.
    """
    try:
        note = _note(url)
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.touch(mode=0o600)
    except (OSError, RuntimeError):
        os.environ[STORE_VARIABLE] = url


def is_named(url: str) -> bool:
    """Return whether the user has named a store, now or at any time."""
    if url == os.environ.get(STORE_VARIABLE):
        return True
    try:
        return _note(url).exists()
    except (OSError, RuntimeError):
        return False


def _note(url: str) -> Path:
    return state_folder() / "stores" / hashlib.sha256(url.encode()).hexdigest()
