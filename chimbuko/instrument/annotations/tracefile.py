"""Trace file of this process, in PerfFlowAspect's format, written beside the program by a process of its
own.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # The module signal may be half imported when this begins.
import marshal
import os
import platform
import signal
import sys
import threading
from contextlib import suppress

import chimbuko
from chimbuko.instrument.annotations.eventfile import EVENT_FIELDS, EventFile, lines
from chimbuko.instrument.annotations.options import (
    INSTANCE_PATH_VARIABLE,
    VARIABLE,
    Options,
    file_name,
    instance_path,
)
from chimbuko.instrument.tracer.connection import KeptDescriptor
from chimbuko.instrument.tracer.eventrecorder import clock_offset_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

    from chimbuko.instrument.annotations.eventfile import Event


LENGTH_BYTES = 8
WHOLE = b"whole"
"""Last message of the process when all is written; any other says what went wrong."""


class EventWriter:
    """Writer of the events of one process, in itself or in a process beside it.

    A line takes some 0.4 µs to make, under the program's interpreter lock; its fields are handed to another
    process in a tenth of that. That process is not a child of the program, and ends with its input.

    Parameters
    ----------
    path, is_object
        Parameters of ``EventFile``.
    pid
        Process id of the traced process.
    offset_ns
        Offset that turns the time of an event into ns since the epoch.
    """

    def __init__(self, path: str, is_object: bool, pid: int, offset_ns: int) -> None:
        self._file = EventFile(path, is_object)
        self._pid = pid
        self._offset_ns = offset_ns

    def append(self, fields: list[Any]) -> None:
        """Write events, given by their fields, one after the other.

        Raises
        ------
        OSError
            The disk has no room for them.
        """
        each = iter(fields)
        events = zip(*[each] * EVENT_FIELDS, strict=True)
        self._file.append(lines(events, self._pid, self._offset_ns))

    def finish(self) -> None:
        """Do nothing: all is written already."""

    def abandon(self) -> None:
        """Close the file, in this process only."""
        self._file.abandon()


def packed(value: Any) -> bytes:
    """Return a message to the process: first the arguments of ``EventWriter``, then fields, at last None."""
    data = marshal.dumps(value)
    return len(data).to_bytes(LENGTH_BYTES, "little") + data


def main() -> None:
    """Write the events that come on the standard input, and report on the standard output how that ended."""
    # The writer must not be a child of the program, which may wait for any child of its own.
    if os.fork():
        os._exit(0)
    os.setsid()
    # Signals that a scheduler sends to all processes of a job are for the program.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(0, "rb") as source:
        try:
            word = _write_all(source)
        except OSError as error:
            word = os.strerror(error.errno or 0).encode()
    # The program may have been killed.
    with suppress(OSError):
        os.write(1, word)


def _write_all(source: BinaryIO) -> bytes:
    writer: EventWriter | None = None
    while (data := _message(source)) is not None:
        value = marshal.loads(data)
        if value is None:
            return WHOLE
        if writer is None:
            writer = EventWriter(*value)
        else:
            writer.append(value)
    return b""


def _message(source: BinaryIO) -> bytes | None:
    """Return the next message; None if the program has ended, perhaps in the middle of one."""
    length = int.from_bytes(source.read(LENGTH_BYTES), "little")
    data = source.read(length)
    return data if length and len(data) == length else None


if __name__ == "__main__":
    main()


_MODULE = "chimbuko.instrument.annotations.tracefile"
_OPTIONS = ("-S", "-s", "-P")
"""Options of Python that skip site packages, which it does not need: it starts in a third of the time."""
LONGEST_WORD = 1 << 12


class WriterProcess:
    """Writer with the methods of ``EventWriter``, which writes in a process of its own.

    The calling thread must have its signals blocked: SIGPIPE comes when the process has ended.

    Parameters
    ----------
    path, is_object, pid, offset_ns
        Parameters of ``EventWriter``.

    Raises
    ------
    OSError
        No process or descriptor can be made, or Python does not start.
    """

    def __init__(self, path: str, is_object: bool, pid: int, offset_ns: int) -> None:
        theirs, ours = os.pipe()
        self._to = KeptDescriptor(ours)
        self._from: KeptDescriptor | None = None
        try:
            ours, their_word = os.pipe()
            self._from = KeptDescriptor(ours)
            try:
                _start(theirs, their_word)
            finally:
                os.close(their_word)
            self._send((path, is_object, pid, offset_ns))
        except OSError:
            self.abandon()
            raise
        finally:
            os.close(theirs)

    def append(self, fields: list[Any]) -> None:
        """Hand over events, given by their fields.

        Raises
        ------
        OSError
            Earlier events could not be written, or the process has ended.
        """
        try:
            self._send(fields)
        except BrokenPipeError:
            self._hear()
            raise

    def finish(self) -> None:
        """Wait until all events are written.

        Raises
        ------
        OSError
            They could not be written.
        """
        with suppress(BrokenPipeError):
            self._send(None)
        self._hear()
        self.abandon()

    def abandon(self) -> None:
        """Close the connection to the process, in this process only."""
        self._to.close()
        if self._from is not None:
            self._from.close()

    def _send(self, value: Any) -> None:
        self._to.check()
        data = memoryview(packed(value))
        while data:
            data = data[os.write(self._to.number, data) :]

    def _hear(self) -> None:
        assert self._from is not None
        self._from.check()
        word = os.read(self._from.number, LONGEST_WORD)
        if word != WHOLE:
            raise OSError(0, word.decode() or "the process that writes it was killed")


def _start(source: int, word: int) -> None:
    if not sys.executable:
        raise OSError(0, "there is no Python to start")
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.abspath(chimbuko.__file__)))
    silent = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    started = os.posix_spawn(
        sys.executable,
        [sys.executable, *_OPTIONS, "-m", _MODULE],
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_DUP2, word, 1), silent],
        setsigmask=(),
    )
    try:
        status = os.waitpid(started, 0)[1]
    except ChildProcessError:
        # The program ignores SIGCHLD, so that the kernel has reaped the process.
        return
    if status:
        raise OSError(0, "it does not start")


WRITE_PERIOD_S = 0.2
"""Time between writes: a killed program loses no more."""
MOST_EVENTS = 1_000_000
"""Most events that wait to be written, some 200 MB: where the disk cannot keep up, further ones are lost and
counted."""
LONGEST_END_S = 60.0
"""Longest wait for the end of the file, after which the program ends without it."""


class Thread(threading.local):
    """Native id of the calling thread, kept as asking for it takes longer than all else of an event."""

    def __init__(self) -> None:
        self.id = threading.get_native_id()


class TraceFile:
    """Trace file of this process, written by a process of its own.

    No thread of the program waits for it: an event is one tuple at the end of a queue, which a thread of ours
    empties. A program that ends before that thread has begun writes the file itself, and so does one that
    cannot start a process. A failure to write is one line on stderr, and not an error in the program.

    Parameters
    ----------
    options
        Format and name of the file.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._instance_path = instance_path(os.environ)
        os.environ[INSTANCE_PATH_VARIABLE] = self._instance_path
        self._fields: list[Any] = []
        """Fields of events, one after the other: tuples would keep the garbage collector busy."""
        self.put: Callable[[Event], None] = self._fields.extend
        self.thread = Thread()
        self._begin_anew()
        self._has_finalizer = False
        os.register_at_fork(after_in_child=self._continue_in_child)
        self._end_with_multiprocessing()

    def _begin_anew(self) -> None:
        self._has_failed = self._has_ended = False
        self._path = self._path_now()
        self._file = self._path, self.options.is_object, os.getpid(), clock_offset_ns()
        self._writer: WriterProcess | EventWriter | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin to write the events, if that has not begun yet."""
        if self._thread is not None:
            return
        # This thread, like the tracer's, must not get signals of the program.
        blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            thread = threading.Thread(target=self._write_on, name="annotations", daemon=True)
            # If no thread can be started now, all events are written at the end.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)

    def close(self) -> None:
        """Write the events that are left, and end the file."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join(LONGEST_END_S)
        elif not self._has_ended:
            self._write(is_last=True)
        self._has_ended = True

    def _write(self, is_last: bool) -> None:
        """Write the events that wait."""
        # Two single operations, between which other threads may add more at the end.
        fields = self._fields[:]
        del self._fields[: len(fields)]
        lost = max(len(fields) // EVENT_FIELDS - MOST_EVENTS, 0)
        try:
            if fields and not self._has_failed:
                if self._writer is None:
                    self._writer = self._new_writer(is_last)
                self._writer.append(fields[lost * EVENT_FIELDS :])
            if is_last and self._writer is not None and not self._has_failed:
                self._writer.finish()
        except OSError as error:
            self._has_failed = True
            self._say(f"{error.strerror or error}; annotations are not written any more")
        if lost:
            self._say(f"{lost} events were lost: too many at a time")

    def _new_writer(self, is_last: bool) -> WriterProcess | EventWriter:
        if not is_last:
            with suppress(OSError):
                return WriterProcess(*self._file)
        return EventWriter(*self._file)

    def _say(self, what: str) -> None:
        print(f"chimbuko: {VARIABLE}: {self._path}: {what}", file=sys.stderr)

    def _path_now(self) -> str:
        name = file_name(self.options, self._instance_path, platform.node(), os.getpid())
        path = os.path.join(self.options.folder, name)
        # The current folder of a program may have been removed.
        with suppress(OSError):
            path = os.path.abspath(path)
        return path

    def _write_on(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopping.wait(WRITE_PERIOD_S)
            self._write(is_last)

    def _continue_in_child(self) -> None:
        """Begin a file of its own in a forked process; events that wait are its parent's."""
        is_begun = self._thread is not None and not self._stopping.is_set()
        if self._writer is not None:
            self._writer.abandon()
        self._fields.clear()
        self.thread.id = threading.get_native_id()
        self._begin_anew()
        if is_begun:
            self.begin()
        self._end_with_multiprocessing()

    def _end_with_multiprocessing(self) -> None:
        """End the file by a finalizer in forked children of multiprocessing, which skip their own end."""
        util = sys.modules.get("multiprocessing.util")
        if util is None or self._has_finalizer:
            return
        self._has_finalizer = True

        def end(file: TraceFile) -> None:
            util.Finalize(None, file.close, exitpriority=-1000)

        # multiprocessing forgets its finalizers after a fork, and then calls this.
        util.register_after_fork(self, end)
        if sys.modules["multiprocessing.process"].parent_process() is not None:
            end(self)
