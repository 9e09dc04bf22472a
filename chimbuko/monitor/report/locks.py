"""Counts of the locks that each thread of a program takes, by a library that is preloaded into it."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chimbuko.core.errors import ConfigError
from chimbuko.runtime.preload import PRELOAD_VARIABLE, compile_with, find_compiler, kept_library, key_of

FILE_VARIABLE = "CHIMBUKO_LOCKS_FILE"
SLOT = struct.Struct("<iiQQQ32x")
"""Slot of a thread in the file, as ``locks.c`` has it: process, thread and its counts."""
MOST_THREADS = 65_536
"""Threads that have a slot, over all of the run; pages of the file that nobody has touched take no memory."""
SOURCE = Path(__file__).with_name("locks.c")
WHAT = "the library that counts locks"
# Without libpthread, which older C libraries have apart, there is nothing to pass calls on to.
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden")
LIBRARIES = ("-Wl,--no-as-needed", "-lpthread", "-ldl")
_MEMORY = Path("/dev/shm")


class LockCounts(NamedTuple):
    """Locks of one thread: mutexes, locks for reading and writing, and spin locks of the C library."""

    locks: int = 0
    trylocks: int = 0
    failed: int = 0
    """Trylocks that found the lock taken."""

    def plus(self, other: LockCounts) -> LockCounts:
        """Return the sums."""
        return LockCounts(*(one + two for one, two in zip(self, other, strict=True)))


class LockFile:
    """The file in which the threads of all programs of a job on this node count; whoever makes it first makes
    it for all.

    Parameters
    ----------
    name
        Name that the monitors of a job share, and no other's.

    Raises
    ------
    ConfigError
        The file cannot be made, or the library cannot be built.
    """

    def __init__(self, name: str, environment: Mapping[str, str] = os.environ) -> None:
        library = locks_library(environment)
        folder = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
        self._path = folder / f"{name}.locks"
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if os.fstat(file).st_uid != os.getuid():
                    raise PermissionError(0, "belongs to another user")
                os.ftruncate(file, (MOST_THREADS + 1) * SLOT.size)
            finally:
                os.close(file)
        except OSError as error:
            raise ConfigError(f"{self._path}: locks cannot be counted there ({error.strerror})") from error
        self._library = library

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a program that is to count; what it preloads itself is kept, behind."""
        preloaded = " ".join(filter(None, [str(self._library), given.get(PRELOAD_VARIABLE, "")]))
        return {**given, PRELOAD_VARIABLE: preloaded, FILE_VARIABLE: str(self._path)}

    def counts(self) -> dict[int, LockCounts] | None:
        """Return the counts so far, by thread; None if another monitor has ended the counting."""
        try:
            with open(self._path, "rb") as file:
                used = int.from_bytes(file.read(8), "little")
                file.seek(SLOT.size)
                data = file.read(min(used, MOST_THREADS) * SLOT.size)
        except OSError:
            return None
        found: dict[int, LockCounts] = {}
        # A thread that runs another program, which loads the library again, has one slot for each.
        for _, tid, *numbers in SLOT.iter_unpack(data[: len(data) // SLOT.size * SLOT.size]):
            if tid:
                found[tid] = found.get(tid, LockCounts()).plus(LockCounts(*numbers))
        return found

    def close(self) -> None:
        """Remove the file; programs that still run go on counting, for nobody."""
        with suppress(OSError):
            self._path.unlink()


def locks_library(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the library, which is built where it is not there yet; that takes some 0.2 s.

    Raises
    ------
    ConfigError
        No compiler, none that works, or no folder of this user's own to keep the library in.
    """
    compiler = find_compiler(environment, WHAT)

    def build(library: Path) -> None:
        words = [*compiler, *FLAGS, "-o", str(library), str(SOURCE), *LIBRARIES]
        compile_with(words, environment, WHAT, "set CC")

    key = key_of(SOURCE.read_bytes(), " ".join(compiler), *FLAGS, *LIBRARIES)
    return kept_library(f"locks-{key}.so", build, environment, WHAT)
