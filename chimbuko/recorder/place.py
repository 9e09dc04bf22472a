"""Where rings lie, and how others see that they are not empty yet."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from chimbuko.follow.space import MEMORY

MARKS_FOLDER = ".rings"
"""Beside the streams of a run: the folder of each recorded program's rings, or a link to it."""
LOOK_PERIOD_S = 0.02


def make_place(streams: Path, is_marked: bool) -> Path:
    """A folder for rings, in memory.

    Parameters
    ----------
    streams
        Folder of the streams, which have not to be there yet.
    is_marked
        Let :func:`await_drained` see it, and whoever clears up among the streams.
    """
    name = f"chimbuko-rings-{os.getpid()}-{time.monotonic_ns()}"
    if not is_marked:
        return _made(MEMORY / name)
    marks = streams / MARKS_FOLDER
    marks.mkdir(mode=0o700, parents=True, exist_ok=True)
    if marks.stat().st_dev == MEMORY.stat().st_dev:
        return _made(marks / name)
    (marks / name).symlink_to(_made(MEMORY / name))
    return marks / name


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def remove_place(place: Path) -> None:
    """Remove the folder, and what shows that it was there."""
    shutil.rmtree(place.resolve(), ignore_errors=True)
    with suppress(OSError):
        if place.is_symlink():
            place.unlink()


def await_drained(streams: Path, longest_s: float) -> bool:
    """Wait until no ring of a program of this run and node holds anything; False if that takes too long."""
    latest_s = time.monotonic() + longest_s
    while _names(streams / MARKS_FOLDER):
        if time.monotonic() > latest_s:
            return False
        time.sleep(LOOK_PERIOD_S)
    return True


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []
