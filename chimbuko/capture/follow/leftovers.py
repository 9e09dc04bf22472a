"""Leftovers of killed processes on a node's local storage, found and removed when a run begins.

Nothing is removed that is not this user's alone, at which anybody is at work, or that waits to be stored.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from chimbuko.capture.follow.presence import announced, guard_of
from chimbuko.capture.follow.space import MEMORY
from chimbuko.core.errors import ChimbukoError
from chimbuko.runtime.process.nameholding import is_held, place
from chimbuko.runtime.runs.directory import claim_name
from chimbuko.runtime.runs.scratch import left_behind, run_of_scratch

KEPT_S = 7 * 86400.0
"""Time in seconds for which an unchanged folder is kept whose run was killed or moved, as somebody may still
want it."""
KEPT_IN_MEMORY_S = 3600.0
BEGINS_S = 60.0
"""A process that has made a folder may be about to begin there."""

_FOLDER = re.compile(r"chimbuko-([0-9a-f]{12})(?:-.+)?")
_FAMILY = re.compile(r"chimbuko-family-\d+-\d+")
_HELD = re.compile(r"chimbuko-(?:jobs|view|broker)-.+")
"""Names of the folders of a dashboard or a broker, whose keeper holds their path as a name."""
_MONITORS = re.compile(r"chimbuko-monitor-\d+-[0-9a-f]{16}")
"""Names of the folders in which the monitors of a job meet, one of which has locked a file."""
_LEADER = "leader"


def remove_leftovers() -> list[Path]:
    """Remove folders that nobody needs any more, and return them."""
    now_s = time.time()
    found = [folder for folder in _candidates() if _can_go(folder, now_s)]
    for folder in found:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def remove_folders_of(run_id: str) -> None:
    """Remove what a run that is deleted has left on this node."""
    for folder in _candidates():
        with suppress(OSError):
            if _run_id(folder) == run_id and not _is_in_use(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _candidates() -> Iterator[Path]:
    known = _FOLDER, _FAMILY, _HELD, _MONITORS
    # Brokers have their folders at the same place, wherever temporary files are.
    places = {place(): (_HELD,), Path(tempfile.gettempdir()): known, MEMORY: known}
    for where, patterns in places.items():
        with suppress(OSError):
            for path in sorted(where.glob("chimbuko-*")):
                if any(names.fullmatch(path.name) for names in patterns) and _is_ours(path):
                    yield path


def _is_ours(folder: Path) -> bool:
    try:
        state = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022


def _can_go(folder: Path, now_s: float) -> bool:
    try:
        idle_s = now_s - _changed_s(folder)
        if idle_s < BEGINS_S or (_run_id(folder) and _is_wanted(folder, idle_s)):
            return False
        # The last question, which takes ten times as long: hundreds of folders may be kept for days.
        return not _is_in_use(folder)
    except OSError:
        # Another run ends just now, and removes what is its own.
        return False


def _is_in_use(folder: Path) -> bool:
    run_id = _run_id(folder)
    if _HELD.fullmatch(folder.name):
        return is_held(str(folder))
    if _MONITORS.fullmatch(folder.name):
        return _is_locked(folder / _LEADER)
    if not run_id:
        return _is_listened_to(folder / "socket")
    return is_held(claim_name(run_id)) or any(
        # Its own folder is what an agent holds.
        is_held(str(one)) or guard_of(one) is not None or any(process.state() for process in announced(one))
        for one in (folder, *(path for path in folder.iterdir() if path.is_dir()))
    )


def _is_listened_to(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True
    return True


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _is_wanted(folder: Path, idle_s: float) -> bool:
    """Return whether a folder may hold data that still has to be stored."""
    run = run_of_scratch(folder)
    is_recent = idle_s < (KEPT_IN_MEMORY_S if folder.parent == MEMORY else KEPT_S)
    with suppress(ChimbukoError):
        if run is not None and (info := run.read_info()).id == _run_id(folder):
            waiting = [Path(left.folder) for _, left in left_behind(run) if not left.is_rescued]
            return folder in waiting or (info.state == "running" and is_recent)
    return is_recent


def _changed_s(folder: Path) -> float:
    """Return the time at which something in a folder was last written."""
    latest_s = folder.lstat().st_mtime
    for path in folder.rglob("*"):
        with suppress(OSError):
            latest_s = max(latest_s, path.lstat().st_mtime)
    return latest_s


def _run_id(folder: Path) -> str:
    found = _FOLDER.fullmatch(folder.name)
    return found[1] if found else ""
