"""Presence of processes in a folder of streams: readers leave word of themselves in it; whether an
application still has a stream open, the kernel says.

Each leaves a file ``NAME.pid`` with its number, the time when it started, in the kernel's ticks, and its
role. Numbers are used again, times of start are not: so nobody takes, or kills, one process for another.
The guard itself is known by a lock, which the kernel releases however the guard ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from chimbuko.capture.follow.steps import DATA, StepIndex
from chimbuko.core.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path


LOCK = "guard.lock"
STOPPED = "T"
"""State of who was stopped by a signal. Who is traced has the small letter: somebody debugs it."""
GONE = "ZX"
"""States of who has ended, though its parent has not yet asked how."""
_SUFFIX = ".pid"
_LOCK_QUESTION = struct.Struct("hhqqi4x")
"""The kernel's ``struct flock`` on machines of 64 bits."""


class Role(StrEnum):
    """Role of a process in a folder of streams, and so what the guard may do to it when it was stopped."""

    LAUNCHER = "launcher"
    """Launcher of the run: left alone, as the user may have stopped it."""
    APPLICATION = "application"
    """The program, or what starts its ranks: left alone always."""
    AGENT = "agent"
    """Agent of ours: made to go on, once."""
    JOINING = "joining"
    """A reader that has read no step yet. Killed it could take an SST writer with it; stopped it holds it up:
    made to go on, again and again."""
    READING = "reading"
    """A reader that has read a step: made to go on, once; killed when it is stopped again."""


class Process(NamedTuple):
    """A process that has left word of itself."""

    pid: int
    started: int
    role: Role

    def state(self) -> str:
        """Return the kernel's letter for the state, ``T`` for stopped; empty if the process has ended."""
        state, started = looked_up(self.pid)
        return state if started == self.started and state not in GONE else ""

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there and may be sent one."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        except OSError:
            # Linux before 5.3: another process could get the number in between.
            handle = -1
        with suppress(ProcessLookupError, PermissionError):
            if self.state() and handle >= 0:
                signal.pidfd_send_signal(handle, number)
            elif self.state():
                os.kill(self.pid, number)
        if handle >= 0:
            os.close(handle)


def announce(folder: Path | str, name: str, role: Role, pid: int | None = None) -> None:
    """Leave word of a process, in place of what it, or its predecessor of the same name, has left before.

    The folder is kept as long as a process lives that has left word in it.

    Parameters
    ----------
    name
        One of its own for each process that may live at the same time, such as ``agent``; no slash.
    pid
        Id of the process; by default this one.

    Raises
    ------
    OSError
        The folder is gone, or there is no such process.
    """
    number = os.getpid() if pid is None else pid
    state, started = looked_up(number)
    if not state:
        raise ProcessLookupError(f"no process {number}")
    write_atomically(os.path.join(folder, name + _SUFFIX), f"{number} {started} {role}\n".encode())


def announced(folder: Path | str) -> list[Process]:
    """Return all processes that have left word, whether they still live or not."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        paths = [entry.path for entry in entries if entry.name.endswith(_SUFFIX)]
        return [process for path in paths if (process := _process(path))]
    return []


def claim(folder: Path | str) -> int | None:
    """Become the guard of a folder: a file to be held open, or None if there is a guard already.

    Raises
    ------
    OSError
        The folder is gone.
    """
    file = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def guard_of(folder: Path | str) -> int | None:
    """Process number of the guard of a folder; None if there is none. To ask gets in nobody's way."""
    try:
        file = os.open(os.path.join(folder, LOCK), os.O_RDWR)
    except OSError:
        return None
    try:
        question = _LOCK_QUESTION.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _LOCK_QUESTION.unpack(fcntl.fcntl(file, fcntl.F_GETLK, question))
    finally:
        os.close(file)
    return None if kind == fcntl.F_UNLCK else pid


def looked_up(pid: int) -> tuple[str, int]:
    """Return the state and time of start of a process; nothing if there is none."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return "", 0
    try:
        content = os.read(file, 4096)
    except OSError:
        return "", 0
    finally:
        os.close(file)
    # The name before the state may itself contain spaces and parentheses.
    fields = content.rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[19])


def _process(path: str) -> Process | None:
    try:
        with open(path, encoding="utf-8") as file:
            pid, started, role = file.read().split()
        return Process(int(pid), int(started), Role(role))
    except (OSError, ValueError):
        # Gone meanwhile, or written by something else.
        return None


def has_writer(stream: Path | str) -> bool:
    """Whether some process has the data of a stream open for writing.

    The kernel knows, also of processes in other containers: it gives a read lease on a file only while
    nobody has it open for writing. Where a file system has no leases, a stream that was not closed in order
    is taken for one that is being written.
    """
    try:
        file = os.open(os.path.join(stream, DATA), os.O_RDONLY)
    except OSError:
        return False
    try:
        # Who opens the file for writing meanwhile would wait until the lease is given back.
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return True
    finally:
        os.close(file)
    index = StepIndex(stream)
    index.read()
    return not index.has_ended
