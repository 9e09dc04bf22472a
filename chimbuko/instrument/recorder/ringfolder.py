"""Folders of rings, and their locks and marks: who drains them, and whether they are empty.

Count of the events of a process that are in no stream, because its writer has died.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from chimbuko.capture.follow.space import MEMORY
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.units import number_of
from chimbuko.instrument.recorder.ring import ProcessFile, Ring
from chimbuko.runtime.process.lifetime import log


def unwritten(path: Path) -> str:
    """Describe in a sentence what is lost of a process; empty if nothing is.

    The number of events may be too large by those of one step that was written and not noted any more.

    Parameters
    ----------
    path
        Path of the file of the process; its rings stand beside it.
    """
    try:
        process = ProcessFile(path)
        rings = [Ring(ring) for ring in path.parent.glob(f"{path.stem}.*.ring")]
    except TraceFormatError as error:
        return f"{path.stem}: it is not known how much of it is lost: {error}"
    events = sum(ring.number("written") for ring in rings) - process.number("stored")
    calls = sum(ring.number("dropped_calls") for ring in rings)
    rows = sum(ring.number("dropped_rows") for ring in rings)
    counted = {"events": max(0, events), "calls for which there was no room": calls, "messages": rows}
    lost = [number_of(number, what) for what, number in counted.items() if number]
    if not lost:
        return ""
    return f"{who(process)}: {', '.join(lost)} of it are in no stream"


def who(process: ProcessFile) -> str:
    """Return the program, and its rank or process id."""
    program = os.path.basename(process.text("executable")) or "program"
    rank = process.number("world_rank")
    return f"{program}, rank {rank}" if rank >= 0 else f"{program}, process {process.number('pid')}"


MARKS_FOLDER = ".rings"
"""Folder beside a run's streams with a folder of rings, or a link to one, for each recorded program."""
LOG_NAME = "chimbuko-recorder.log"
"""Log file beside the streams with what went wrong in the drains; it is there only if something did."""
PROCESS_SUFFIX = ".process"
LOOK_PERIOD_S = 0.02
TICK_NS = 20_000_000
"""Time that is longer than a tick of the clock with which file systems stamp files."""
READY = b"ready"
"""Text that a drain writes to standard output when the program may begin."""
_LOCK = ".lock"
_ERROR_FILE = ".stderr"
_AWAITED_FILE = ".awaited"
AWAITED_S = 60.0
"""Longest time that a process which drains a folder may need to come."""
_NAME = re.compile(r"chimbuko-rings-(?P<pid>\d+)-\d+")


def make_ring_folder(streams: Path, is_marked: bool) -> Path:
    """Make a folder for rings, in memory.

    Parameters
    ----------
    streams
        Folder of the streams, which need not exist yet.
    is_marked
        Make it visible beside the streams, to :func:`await_drained` and to whoever removes the streams.
    """
    name = f"chimbuko-rings-{os.getpid()}-{time.monotonic_ns()}"
    if not is_marked:
        clear_up()
        return _made(MEMORY / name)
    marks = streams / MARKS_FOLDER
    marks.mkdir(mode=0o700, parents=True, exist_ok=True)
    if marks.stat().st_dev == MEMORY.stat().st_dev:
        return _made(marks / name)
    (marks / name).symlink_to(_made(MEMORY / name))
    return marks / name


def make_awaited_folder(pid: int) -> Path:
    """Make a folder for the rings of a process that may end before any process has come to drain it."""
    folder = _made(MEMORY / f"chimbuko-rings-{pid}-{time.monotonic_ns()}")
    (folder / _AWAITED_FILE).touch()
    return folder


def _is_awaited(folder: Path) -> bool:
    with suppress(OSError):
        return time.time() < (folder / _AWAITED_FILE).stat().st_mtime + AWAITED_S
    return False


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def open_error_file(folder: Path) -> int:
    """Open the file for the error output of a drain; return its descriptor."""
    return os.open(folder / _ERROR_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def error_output(folder: Path) -> str:
    """Return the error output of a drain."""
    return (folder / _ERROR_FILE).read_text(errors="replace").strip()


def lock_as_drained(folder: Path) -> int:
    """Lock a folder of rings as drained, until this process and all that it forks have ended.

    Returns
    -------
    int
        Descriptor of the lock, to be kept open.
    """
    # A lock of the file, and not a name on this node (process.nameholding): the program may have a network
    # namespace of its own.
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / _AWAITED_FILE).unlink(missing_ok=True)
    return lock


def is_drained(folder: Path) -> bool:
    """Whether a process drains the folder."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def remove_ring_folder(folder: Path, streams: Path | None = None) -> None:
    """Remove a folder of rings, and its mark.

    Parameters
    ----------
    streams
        Folder of the log file, to which the error output of the drain is added.
    """
    with suppress(OSError):
        if streams is not None and (said := (folder / _ERROR_FILE).read_bytes()):
            append_to_log(streams, said)
    shutil.rmtree(folder.resolve(), ignore_errors=True)
    with suppress(OSError):
        if folder.is_symlink():
            folder.unlink()


def remove_recording(path: Path) -> None:
    """Remove the file of a process, and its rings."""
    for file in path.parent.glob(f"{path.stem}.*"):
        with suppress(OSError):
            file.unlink()


def append_to_log(streams: Path, said: bytes) -> None:
    """Add lines to the log file. Several processes may do so at a time."""
    file = os.open(streams / LOG_NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.write(file, said)
    finally:
        os.close(file)


def marked_folders(streams: Path) -> list[Path]:
    """Return the folders of rings of all programs of a run on this node."""
    marks = streams / MARKS_FOLDER
    with suppress(OSError):
        return [marks / name for name in sorted(os.listdir(marks))]
    return []


def await_drained(streams: Path, longest_s: float) -> bool:
    """Wait until all rings of this run on this node are empty; return False if that takes too long."""
    latest_s = time.monotonic() + longest_s
    while any(is_drained(folder) for folder in marked_folders(streams)):
        if time.monotonic() > latest_s:
            return False
        time.sleep(LOOK_PERIOD_S)
    return True


def process_files(folder: Path) -> list[Path]:
    """Return the files of the processes that are, or were, recorded into a folder."""
    with suppress(OSError):
        names = sorted(os.listdir(folder))
        return [folder / name for name in names if is_process_file(name)]
    return []


def is_process_file(name: str) -> bool:
    """Whether a file of this name is the complete file of a process."""
    return name.endswith(PROCESS_SUFFIX) and not name.startswith(".")


def in_order_of_start(names: Iterable[str]) -> list[str]:
    """Return the names of files of processes in the order of their start, which process ids do not tell."""
    return sorted(filter(is_process_file, names), key=_start_ns)


def _start_ns(name: str) -> int:
    start = name.removesuffix(PROCESS_SUFFIX).rpartition("-")[2]
    return int(start) if start.isdecimal() else 0


class Listing:
    """Listing of a folder that is looked at ten times a second, and hardly ever changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed_ns = 0

    def news(self) -> list[str]:
        """Return all names, sorted, where the folder may have changed since the last look; else none."""
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns
            if changed_ns == self._changed_ns:
                return []
            # Changes within one tick of the file system's clock leave the same time of change.
            is_settled = time.time_ns() > changed_ns + TICK_NS
            names = sorted(os.listdir(self._folder))
        except OSError:
            return []
        self._changed_ns = changed_ns if is_settled else 0
        return names


def is_in_use(folder: Path) -> bool:
    """Whether a process lives that is recorded into the folder."""
    pids = [int(path.name.partition("-")[0]) for path in process_files(folder)]
    named = _NAME.fullmatch(folder.name)
    return any(is_alive(pid) for pid in (*pids, *([int(named["pid"])] if named else [])))


def is_alive(pid: int) -> bool:
    """Whether the process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def clear_up() -> None:
    """Remove the folders that earlier programs outside of runs have left, whose drains were killed."""
    for folder in MEMORY.glob("chimbuko-rings-*"):
        with suppress(OSError):
            if folder.stat().st_uid == os.getuid() and not is_in_use(folder):
                _remove_unless_drained(folder)


def _remove_unless_drained(folder: Path) -> None:
    """Remove a folder of rings under its lock: who comes to drain it meanwhile finds it awaited, or gone.

    Raises
    ------
    OSError
        A process drains the folder, or another one removes it.
    """
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_awaited(folder):
            return
        for path in process_files(folder):
            if (lost := unwritten(path)) and path.exists():
                log(f"an earlier program, {lost}")
        remove_ring_folder(folder)
    finally:
        os.close(lock)
