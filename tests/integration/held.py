"""An application that runs until it is released, and says how it ended: around it all may fail."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chimbuko.runtime.runs.directory import RunDirectory

if TYPE_CHECKING:
    from tests.integration.conftest import Run

CODE = 7
"""Its exit code, where it comes to its end by itself."""
TERMINATED = 9
"""Its exit code, where it was asked to end (SIGTERM)."""
LONGEST_S = 120
LOOKS_S = 1.0
"""In so long the launcher looks ten times."""


class Held:
    """The application; ``command`` starts it, anywhere."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hold = folder / "hold"
        self._hold.touch()
        place = shlex.quote(str(folder))
        self.script = (
            f"cd {place}; trap 'echo terminated > ended; exit {TERMINATED}' TERM; echo $$ > started; "
            f"n=0; while [ -e hold ] && [ $n -lt {10 * LONGEST_S} ]; do sleep 0.1; n=$((n+1)); done; "
            f"echo well > ended; exit {CODE}"
        )
        self.command = ["sh", "-c", self.script]

    @property
    def pid(self) -> int:
        """Its process; 0 before it runs."""
        path = self._folder / "started"
        return int(path.read_text() or 0) if path.exists() else 0

    @property
    def end(self) -> str:
        """How it ended: ``well`` or ``terminated``; empty where it did not."""
        path = self._folder / "ended"
        return path.read_text().strip() if path.exists() else ""

    def wait(self, run: Run) -> None:
        """Until it runs and is analysed: it begins before the analysis does."""
        run.wait_until(lambda: bool(self.pid) and RunDirectory(run.folder).alive_path.exists())

    def release(self) -> None:
        """Let it come to its end, after the launcher has had time to look around."""
        time.sleep(LOOKS_S)
        self._hold.unlink()


@contextmanager
def mounted(folder: Path, size: str = "64m") -> Iterator[None]:
    """A file system of its own at ``folder``; skips where that cannot be made."""
    folder.mkdir(exist_ok=True)
    command: Sequence[str | Path] = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        # What was mounted over it, too.
        while folder.is_mount():
            subprocess.run(["umount", "-l", folder], check=True)


CHIMBUKO = [sys.executable, "-m", "chimbuko"]
