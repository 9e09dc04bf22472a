"""The trace file of this process, written beside the program."""

from __future__ import annotations

import os
import platform
import sys
import threading

from chimbuko.perfflow.eventfile import EVENT_FIELDS, EventFile, lines
from chimbuko.perfflow.filename import INSTANCE_PATH_VARIABLE, file_name, instance_path
from chimbuko.perfflow.options import VARIABLE, Options
from chimbuko.tracer.eventrecorder import clock_offset_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from chimbuko.perfflow.eventfile import Event

WRITE_PERIOD_S = 0.2
"""What a killed program loses at most."""
MOST_EVENTS = 1_000_000
"""That wait to be written, some 200 MB: where the disk cannot keep up, further ones are counted, and lost."""


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
        self._fields: list[Any] = []
        """Of events, one after the other: as tuples they would keep the garbage collector busy."""
        self.put: Callable[[Event], None] = self._fields.extend
        self._begin_anew()
        os.register_at_fork(after_in_child=self._continue_in_child)

    def _begin_anew(self) -> None:
        self._has_failed = False
        self._offset_ns = clock_offset_ns()
        self._file = EventFile(self._path(), self.options.is_object)
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
            # Each is one operation, between which other threads may put more at the end.
            fields = self._fields[:]
            del self._fields[: len(fields)]
            lost = max(len(fields) // EVENT_FIELDS - MOST_EVENTS, 0)
            each = iter(fields[lost * EVENT_FIELDS :])
            try:
                if fields and not self._has_failed:
                    events = zip(each, each, each, each, strict=True)
                    self._file.append(lines(events, os.getpid(), self._offset_ns))
            except OSError as error:
                self._has_failed = True
                reason = f"{self._file.path}: {error.strerror}; annotations are not written any more"
                print(f"chimbuko: {VARIABLE}: {reason}", file=sys.stderr)
        if lost:
            print(
                f"chimbuko: {self._file.path}: {lost} events were lost: too many at a time", file=sys.stderr
            )

    def _path(self) -> str:
        name = file_name(self.options, self._instance_path, platform.node(), os.getpid())
        return os.path.join(self.options.folder, name)

    def _write_on(self) -> None:
        while not self._stopping.wait(WRITE_PERIOD_S):
            self.write()

    def _continue_in_child(self) -> None:
        """A forked process writes a file of its own; what waits is its parent's."""
        is_begun = self._writer is not None and not self._stopping.is_set()
        self._file.abandon()
        self._fields.clear()
        self._begin_anew()
        if is_begun:
            self.begin()
        # Multiprocessing ends its children without the interpreter's own end.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, lambda file: util.Finalize(None, file.close, exitpriority=-1000))
