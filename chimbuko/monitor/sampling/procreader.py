"""Files of /proc that stay open between samples: to open one costs more than to read it."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

MOST_BYTES = 65_536
SPARE_FILES = 64
"""What is left for others of the files that a process may have open."""


class ProcReader:
    """Reads files anew each time, from descriptors that it keeps as long as there is room for them."""

    def __init__(self, most_open: int | None = None) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most_open is None and soft < hard:
            # A node's 400 threads have 1,200 files, and 1,024 is the usual limit.
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        self._most = max(0, soft - SPARE_FILES) if most_open is None else most_open
        self._open: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """What a file says now, at most 64 kB of it; nothing where it is gone or may not be read."""
        number = self._open.get(path)
        try:
            if number is None:
                number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                if len(self._open) >= self._most:
                    try:
                        return os.pread(number, MOST_BYTES, 0)
                    finally:
                        os.close(number)
                self._open[path] = number
            return os.pread(number, MOST_BYTES, 0)
        except OSError:
            # The descriptor of a thread that ended stays that thread's, also when its number is used again.
            self.forget(path)
            return b""

    def forget(self, path: str) -> None:
        """Close a file that will not be read again."""
        number = self._open.pop(path, None)
        if number is not None:
            with suppress(OSError):
                os.close(number)

    def close(self) -> None:
        """Close all of them."""
        for path in list(self._open):
            self.forget(path)
