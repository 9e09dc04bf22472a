"""Files of /proc that stay open between samples: to open one costs more than to read it."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

MOST_BYTES = 65_536
"""Most bytes that are read of a file whose reader does not say how long it may be."""
SPARE_FILES = 64
"""Number of the process's open files that is left for others."""
_CLOSED = -1


class ProcReader:
    """Reads files anew each time, from descriptors that it keeps as long as there is room for them."""

    def __init__(self, most_open: int | None = None) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most_open is None and soft < hard:
            # A node's 400 threads have 1,200 files, and 1,024 is the usual limit.
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        self._most = max(0, soft - SPARE_FILES) if most_open is None else most_open
        self._open = 0
        self._files: dict[str, ProcFile] = {}

    def file(self, path: str, most_bytes: int = MOST_BYTES) -> ProcFile:
        """Return a file to read again and again, of which at most so many bytes are wanted; the caller closes
        it.
        """
        return ProcFile(self, path, most_bytes)

    def read(self, path: str) -> bytes:
        """Return the content of a file, at most 64 kB of it; empty if it is gone or may not be read."""
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = ProcFile(self, path)
        return file.read()

    def forget(self, path: str) -> None:
        """Close a file that will not be read again."""
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all that it has read itself."""
        for path in list(self._files):
            self.forget(path)

    def take_room(self) -> bool:
        """Whether one more file may stay open, which is counted then."""
        if self._open >= self._most:
            return False
        self._open += 1
        return True

    def give_room(self) -> None:
        """Note that a file is closed."""
        self._open -= 1


def read_once(path: str) -> bytes:
    """Return the content of a file, at most 64 kB of it; empty if it is gone or may not be read.

    Without Python's buffers: these take longer than the kernel does.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(number, MOST_BYTES)
    except OSError:
        return b""
    finally:
        os.close(number)


class ProcFile:
    """One file."""

    __slots__ = ("_most_bytes", "_number", "_path", "_reader")

    def __init__(self, reader: ProcReader, path: str, most_bytes: int = MOST_BYTES) -> None:
        self._reader = reader
        self._path = path
        self._most_bytes = most_bytes
        self._number = _CLOSED

    def read(self) -> bytes:
        """Return the begin of the file's text of now; empty if the file is gone or may not be read."""
        number = self._number
        try:
            return self._open() if number == _CLOSED else os.pread(number, self._most_bytes, 0)
        except OSError:
            # The descriptor of a thread that ended stays that thread's, also when its number is used again.
            self.close()
            return b""

    def _open(self) -> bytes:
        number = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        if self._reader.take_room():
            self._number = number
            return os.pread(number, self._most_bytes, 0)
        try:
            return os.pread(number, self._most_bytes, 0)
        finally:
            os.close(number)

    def close(self) -> None:
        """Close the file. A later read opens it again."""
        if self._number != _CLOSED:
            with suppress(OSError):
                os.close(self._number)
            self._number = _CLOSED
            self._reader.give_room()

    def __del__(self) -> None:
        """Close the file where its owner was dropped without a word."""
        self.close()
