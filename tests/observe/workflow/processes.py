"""Processes of a test that are still there: by a mark in their environment, or open files in its folder."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

VARIABLE = "CHIMBUKO_TEST_MARK"


def new_mark(folder: Path) -> dict[str, str]:
    """A variable for the environment of what a test starts whose files are all in a folder."""
    return {VARIABLE: str(folder)}


def marked(mark: dict[str, str]) -> list[str]:
    """Ids and command lines of all processes that have inherited a mark, and of their children."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for name in os.listdir("/proc"):
        process = Path("/proc") / name
        with suppress(OSError):
            if name.isdecimal() and int(name) != os.getpid():
                parents[int(name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if _has(process, mark[VARIABLE]):
                    found.add(int(name))
    # The broker of a run has written its title over its environment, and no file open.
    while children := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= children
    lines = []
    for pid in sorted(found):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            lines.append(f"{pid} {words}")
    return lines


def none_left(mark: dict[str, str], patience_s: float = 5.0) -> list[str]:
    """What is left of them after a moment: a process that was killed takes one to go."""
    deadline_s = time.monotonic() + patience_s
    while (found := marked(mark)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return found


def _has(process: Path, folder: str) -> bool:
    """One with a title of its own, such as a broker, has written that over its environment."""
    if f"{VARIABLE}={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
        return True
    for descriptor in (process / "fd").iterdir():
        # It may be closed meanwhile.
        with suppress(OSError):
            if os.readlink(descriptor).startswith(f"{folder}/"):
                return True
    return False
