"""Writer of Chrome's trace events, one a line, in an object or, as PerfFlowAspect does, in an array."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import IO, Any, Final

import msgspec

from chimbuko.capture.formats.moments import MAIN_THREAD, Edge, Moment, Value
from chimbuko.core.traceschema import StreamNames

_ARRAY: Final = b"[\n", b"\n]\n"


class ChromeFile:
    """Events one after the other; whoever writes them decides what they mean.

    Parameters
    ----------
    file
        Gets the bytes; it stays open.
    around
        The object that the events stand in, by its other keys; None for an array of nothing else.
    """

    def __init__(self, file: IO[bytes], around: Mapping[str, Any] | None) -> None:
        self._file = file
        self._separator, self._end = _ARRAY
        if around is not None:
            self._separator = msgspec.json.encode(around)[:-1] + b',"traceEvents":[\n'
            self._end = b"\n]}\n"
        self._is_begun = False

    def event(self, phase: str, name: str, process: int, thread: int, **more: Any) -> None:
        """Write the next event, with further keys as they come."""
        event = {"ph": phase, "name": name, "pid": process, "tid": thread, **more}
        self._put(msgspec.json.encode(event))

    def close(self) -> None:
        """Write its end, also where there was no event."""
        if not self._is_begun:
            self._put(b"")
        self._file.write(self._end)

    def _put(self, text: bytes) -> None:
        self._file.write(self._separator + text)
        self._separator, self._is_begun = b",\n", True


FIRST_THREAD: Final = 1_000_000
"""Number of the first further thread; the main thread has the number of its process."""
_WITH_MODULE: Final = re.compile(r"(.+) \[(.+)\]", re.DOTALL)


class Writer:
    """Writes one file."""

    around: Mapping[str, Any] | None = {"displayTimeUnit": "ms"}

    def __init__(self, file: IO[bytes]) -> None:
        self._file = ChromeFile(file, self.around)

    def begin_rank(self, rank: int, name: str) -> None:
        """Begin the rank that everything that follows belongs to."""
        self._process = rank + 1
        self.name_process(name)

    def name_process(self, name: str) -> None:
        """Write what the process is called."""
        self._event("M", "process_name", MAIN_THREAD, args={"name": name})

    def write(self, moments: Iterable[Moment], names: StreamNames) -> None:
        """Write the next events of the rank."""
        for moment in moments:
            if isinstance(moment, Edge):
                function = self.function(moment.function)
                phase = "B" if moment.is_begin else "E"
                self._event(phase, thread=moment.thread, **function, ts=moment.time_us)
            elif isinstance(moment, Value):
                value = {"value": moment.value}
                self._event("C", moment.counter, moment.thread, args=value, ts=moment.time_us)
            else:
                phase = "s" if moment.is_send else "f"
                flow = {"cat": "message", "id": moment.flow, "bp": "e"}
                size = {"bytes": moment.size_bytes}
                self._event(phase, f"tag {moment.tag}", moment.thread, **flow, args=size, ts=moment.time_us)

    def function(self, name: str) -> dict[str, str]:
        """Return the name of a function as it is written."""
        return {"name": name}

    def close(self) -> None:
        """Write its end."""
        self._file.close()

    def _event(self, phase: str, name: str, thread: int, **more: Any) -> None:
        tid = self._process if thread == MAIN_THREAD else FIRST_THREAD + thread
        self._file.event(phase, name, self._process, tid, **more)


class PerfFlowAspectWriter(Writer):
    """Writes one file as PerfFlowAspect: the module of a function is its category.

    Hatchet takes by its first event whether a file is a verbose one, so a process is named behind the first
    step that has any.
    """

    around = None
    _unnamed = ""

    def name_process(self, name: str) -> None:
        """Name a process, which is written once it has events."""
        self._unnamed = name

    def write(self, moments: Iterable[Moment], names: StreamNames) -> None:
        """Write the next events of the rank."""
        moments = list(moments)
        super().write(moments, names)
        if moments and self._unnamed:
            super().name_process(self._unnamed)
            self._unnamed = ""

    def function(self, name: str) -> dict[str, str]:
        """Return name and category of a function: the module at the end of its name is the category."""
        match = _WITH_MODULE.fullmatch(name)
        return {"name": match[1], "cat": match[2]} if match else {"name": name}
