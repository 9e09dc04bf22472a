"""Where a user's runs are that lie elsewhere than under ``chimbuko-runs``: a file for each, with its folder.

The files, in ``$XDG_STATE_HOME/chimbuko/runs``, have the ids of runs as names. All of them can be removed:
then runs are found by their folders only.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from chimbuko.core.atomicfile import write_atomically

STATE_VARIABLE = "XDG_STATE_HOME"


def note(run_id: str, folder: Path) -> None:
    """Note where a run is; nothing where that cannot be written."""
    with suppress(OSError, RuntimeError):
        notes = _notes()
        notes.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(notes / run_id, f"{folder}\n".encode())


def noted() -> dict[str, Path]:
    """Folders by the ids of their runs, some of which may be gone; by path."""
    found = {}
    with suppress(OSError, RuntimeError):
        for path in _notes().glob("[!.]*"):
            with suppress(OSError, UnicodeDecodeError):
                text = path.read_text().removesuffix("\n")
                if text.startswith("/") and text.isprintable():
                    found[path.name] = Path(text)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def forget(run_id: str) -> None:
    """Remove what was noted of a run."""
    with suppress(OSError, RuntimeError):
        (_notes() / run_id).unlink()


def _notes() -> Path:
    state = os.environ.get(STATE_VARIABLE)
    return (Path(state) if state else Path("~/.local/state").expanduser()) / "chimbuko" / "runs"
