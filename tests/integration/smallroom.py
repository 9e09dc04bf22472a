"""A file system of a few MB, which can be filled to its last page, and emptied again."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FILL_EVERY_S = 0.005
PAGE = bytes(4096)


class NotPermitted(Exception):
    """Nothing can be mounted here."""


class SmallRoom:
    """A mounted file system; all that is written to it while it is full fails."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def fill(self) -> None:
        """Take all room, also what others give back, until ``empty``."""
        self._is_over.clear()
        is_full = threading.Event()
        self._thread = threading.Thread(target=self._keep_full, args=(is_full,), daemon=True)
        self._thread.start()
        is_full.wait()

    def empty(self) -> None:
        """Give the room back."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._filler.exists():
            # A forked process may hold it open.
            os.truncate(self._filler, 0)
            self._filler.unlink()

    def use_up_names(self) -> None:
        """Make files until there can be no more of them."""
        with suppress(OSError):
            for number in range(1 << 20):
                (self.path / f"file{number}").touch()

    def give_names_back(self) -> None:
        """Remove them."""
        for path in self.path.glob("file*"):
            path.unlink()

    def _keep_full(self, is_full: threading.Event) -> None:
        with self._filler.open("ab", buffering=0) as file:
            while True:
                with suppress(OSError):
                    while file.write(PAGE):
                        pass
                is_full.set()
                if self._is_over.wait(FILL_EVERY_S):
                    return


@contextmanager
def small_room(path: Path, options: str) -> Iterator[SmallRoom]:
    """Mount one on a new folder.

    Raises
    ------
    NotPermitted
        Only root may.
    """
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "chimbuko-test", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        raise NotPermitted("to mount a small file system takes root")
    room = SmallRoom(path)
    try:
        yield room
    finally:
        room.empty()
        subprocess.run(["umount", "-l", str(path)], check=True)
