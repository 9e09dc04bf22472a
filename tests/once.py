"""What one process of pytest makes for all of them."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable
from pathlib import Path


class Once:
    """A folder of the whole session, of all its processes.

    What is made there is shared by tests that run at the same time: who changes it copies it first.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def made(self, name: str, make: Callable[[Path], object]) -> Path:
        """A folder that ``make`` has filled; who comes meanwhile waits for it.

        Where ``make`` fails it fails for everybody, each of whom has tried.
        """
        made = self._folder / name
        with (self._folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                # By its own name: a run keeps that of its folder.
                making = Path(tempfile.mkdtemp(dir=self._folder)) / name
                make(making)
                making.rename(made)
        return made
