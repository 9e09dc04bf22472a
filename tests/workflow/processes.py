"""Processes of a test that are still there, found by a mark in their environment."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

VARIABLE = "CHIMBUKO_TEST_MARK"


def new_mark() -> dict[str, str]:
    """A variable for the environment of what a test starts."""
    return {VARIABLE: uuid.uuid4().hex}


def marked(mark: dict[str, str]) -> list[str]:
    """Command lines of all processes that have inherited a mark."""
    wanted = f"{VARIABLE}={mark[VARIABLE]}".encode()
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                words = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(f"{name} {words}")
    return found


def none_left(mark: dict[str, str], patience_s: float = 5.0) -> list[str]:
    """What is left of them after a moment: a process that was killed takes one to go."""
    deadline_s = time.monotonic() + patience_s
    while (found := marked(mark)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return found
