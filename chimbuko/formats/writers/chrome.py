"""Writes Chrome's trace events, one a line; in an object, or as PerfFlowAspect in an array."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import IO, Any, Final

import msgspec

from chimbuko.formats.writers.moments import MAIN_THREAD, Edge, Moment, Value
from chimbuko.trace.schema import StreamNames

FIRST_THREAD: Final = 1_000_000
"""Of further threads; that of the main thread is the number of its process."""
_WITH_MODULE: Final = re.compile(r"(.+) \[(.+)\]", re.DOTALL)
_BEGIN, _END = b'{"displayTimeUnit":"ms","traceEvents":[\n', b"\n]}\n"


class Writer:
    """Writes one file."""

    begin = _BEGIN
    end = _END

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._separator = self.begin

    def begin_rank(self, rank: int, name: str) -> None:
        """What follows is of this rank."""
        self._process = rank + 1
        self._event("M", "process_name", args={"name": name})

    def write(self, moments: Iterable[Moment], names: StreamNames) -> None:
        """The next events of the rank."""
        for moment in moments:
            if isinstance(moment, Edge):
                function = self.function(moment.function)
                phase = "B" if moment.is_begin else "E"
                self._event(phase, thread=moment.thread, ts=moment.time_us, **function)
            elif isinstance(moment, Value):
                value = {"value": moment.value}
                self._event("C", moment.counter, moment.thread, moment.time_us, args=value)
            else:
                phase = "s" if moment.is_send else "f"
                flow = {"cat": "message", "id": moment.flow, "bp": "e"}
                size = {"bytes": moment.size_bytes}
                self._event(phase, f"tag {moment.tag}", moment.thread, moment.time_us, **flow, args=size)

    def function(self, name: str) -> dict[str, str]:
        """How the name of a function is written."""
        return {"name": name}

    def close(self) -> None:
        """Write its end."""
        self._file.write((b"" if self._separator != self.begin else self.begin) + self.end)

    def _event(self, ph: str, name: str = "", thread: int = 0, ts: int | None = None, **more: Any) -> None:
        tid = self._process if thread == MAIN_THREAD else FIRST_THREAD + thread
        event = {"ph": ph, "name": name, "pid": self._process, "tid": tid} | more
        if ts is not None:
            event["ts"] = ts
        self._file.write(self._separator + msgspec.json.encode(event))
        self._separator = b",\n"


class PerfFlowAspectWriter(Writer):
    """Writes one file as PerfFlowAspect: the module of a function is its category."""

    begin = b"[\n"
    end = b"\n]\n"

    def function(self, name: str) -> dict[str, str]:
        """The module that ends it goes into its category."""
        match = _WITH_MODULE.fullmatch(name)
        return {"name": match[1], "cat": match[2]} if match else {"name": name}
