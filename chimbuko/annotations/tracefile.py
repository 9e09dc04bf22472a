"""A trace file of PerfFlowAspect's form: one event a line, valid JSON also after a crash."""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
import threading
from collections import deque
from contextlib import suppress

from chimbuko.annotations.filename import INSTANCE_PATH_VARIABLE, file_name, instance_path
from chimbuko.annotations.options import VARIABLE, Options
from chimbuko.tracer.eventrecorder import clock_offset_ns

WRITE_PERIOD_S = 0.2
"""What a killed program loses at most."""
MOST_EVENTS = 1_000_000
"""That wait to be written, some 200 MB: where the disk cannot keep up, further ones are counted, and lost."""
_BEGIN = {False: "[\n", True: '{"displayTimeUnit": "us", "otherData": {}, "traceEvents": [\n'}
_END = {False: "\n]\n", True: "\n]}\n"}

Event = tuple[str, str, int, int, "str | int"]
"""Head of its line, phase, native id of its thread, time by the monotonic clock in ns, and the tail of its
line, or, in an ``X``, its duration in ns."""


def head(name: str, category: str) -> str:
    """How the lines of a function begin."""
    return f'{{"name": {json.dumps(name)}, "cat": {json.dumps(category)}, '


class TraceFile:
    """The trace file of this process, written by a thread of its own.

    No thread of the program waits for it: an event is one tuple at the end of a queue. What cannot be
    written is one line on stderr, and no error of the program's.

    Parameters
    ----------
    options
        Its form and its name.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._instance_path = instance_path(os.environ)
        os.environ[INSTANCE_PATH_VARIABLE] = self._instance_path
        self._events: deque[Event] = deque()
        self.put = self._events.append
        self._begin_anew()
        os.register_at_fork(after_in_child=self._continue_in_child)

    def _begin_anew(self) -> None:
        self._has_failed = False
        self._offset_ns = clock_offset_ns()
        self._file = -1
        self._end_at = 0
        self._is_writing = threading.Lock()
        self._stopping = threading.Event()
        self._writer: threading.Thread | None = None

    def begin(self) -> None:
        """Write from now on what is put into it; where that is done already, nothing."""
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_on, name="annotations", daemon=True)
            self._writer.start()

    def close(self) -> None:
        """Write what is left."""
        self._stopping.set()
        if self._writer is not None:
            self._writer.join()
        self.write()

    def write(self) -> None:
        """Write what was put into it until now."""
        with self._is_writing:
            lost = max(len(self._events) - MOST_EVENTS, 0)
            for _ in range(lost):
                self._events.popleft()
            events = [self._events.popleft() for _ in range(len(self._events))]
            try:
                if events and not self._has_failed:
                    self._append(",\n".join(map(self._line, events)))
            except OSError as error:
                self._has_failed = True
                reason = f"{self.path}: {error.strerror}; annotations are not written any more"
                print(f"chimbuko: {VARIABLE}: {reason}", file=sys.stderr)
        if lost:
            print(f"chimbuko: {self.path}: {lost} events were lost: too many at a time", file=sys.stderr)

    @property
    def path(self) -> str:
        """Where it is, once there is something in it."""
        name = file_name(self.options, self._instance_path, platform.node(), os.getpid())
        return os.path.join(self.options.folder, name)

    def _write_on(self) -> None:
        while not self._stopping.wait(WRITE_PERIOD_S):
            self.write()

    def _append(self, lines: str) -> None:
        """In one call, with what ends the file, so that a killed program leaves it whole."""
        begin, end = _BEGIN[self.options.is_object], _END[self.options.is_object]
        if self._file < 0:
            os.makedirs(self.options.folder, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        text = f"{',' + chr(10) if self._end_at else begin}{lines}".encode()
        written = os.pwrite(self._file, text + end.encode(), self._end_at)
        if written < len(text) + len(end):
            self._take_back(end.encode())
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._end_at += len(text)

    def _take_back(self, end: bytes) -> None:
        """The lines for which there was no room: what came before them stays."""
        os.ftruncate(self._file, self._end_at)
        if self._end_at:
            os.pwrite(self._file, end, self._end_at)
        else:
            os.unlink(self.path)

    def _line(self, event: Event) -> str:
        start, phase, thread, time_ns, tail = event
        if isinstance(tail, int):
            tail = f', "dur": {tail // 1000}.{tail % 1000:03d}'
        at_ns = time_ns + self._offset_ns
        return (
            f'{start}"pid": {os.getpid()}, "tid": {thread}, '
            f'"ts": {at_ns // 1000}.{at_ns % 1000:03d}, "ph": "{phase}"{tail}}}'
        )

    def _continue_in_child(self) -> None:
        """A forked process writes a file of its own; what waits is its parent's."""
        is_begun = self._writer is not None and not self._stopping.is_set()
        with suppress(OSError):
            if self._file >= 0:
                os.close(self._file)
        self._events.clear()
        self._begin_anew()
        if is_begun:
            self.begin()
        # Multiprocessing ends its children without the interpreter's own end.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, lambda file: util.Finalize(None, file.close, exitpriority=-1000))
