"""Trace file in PerfFlowAspect's format: one event a line, and valid JSON whenever its writer dies."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_BEGIN = {False: "[\n", True: '{"displayTimeUnit": "us", "otherData": {}, "traceEvents": [\n'}
_USAGE = '"cpu_usage": %r, "system_cpu_usage": %r, "thread_cpu_usage": %r, "memory_usage": %r'
_END = {False: "\n]\n", True: "\n]}\n"}


NS_PER_US = 1000
EVENT_FIELDS = 4
Usage = tuple[float, float, float, float]
"""Usage of a call: CPU time of the process, the part of it in the kernel, and CPU time of the thread, in
percent of wall time; memory in 1,000 bytes.
"""
UNUSED: Usage = (0, 0, 0, 0)
Event = tuple[str, int, int, "str | int | Usage"]
"""Event: head of its line, native id of its thread, time in ns, and the tail of its line, from a comma on. A
whole call (``X``) has its duration in ns in place of the tail, and a counter (``C``) what was used."""


def head(name: str, category: str, phase: str) -> str:
    """Return the beginning of a function's lines for a phase of the Chrome trace format."""
    return f'{{"name": {json.dumps(name)}, "cat": {json.dumps(category)}, "ph": "{phase}", "ts": '


def lines(events: Iterable[Event], pid: int, offset_ns: int) -> list[str]:
    """Return the lines of events in the file.

    Parameters
    ----------
    offset_ns
        Offset that turns the time of an event into ns since the epoch.
    """
    # At 5,000 calls a second each µs is half a percent of the program's time. Divisions would take twice as
    # long, and so would a line that is put together from more parts.
    end = f', "pid": {pid}'
    made = []
    for start, thread, time_ns, tail in events:
        at = str(time_ns + offset_ns)
        if type(tail) is int:
            lasted = str(tail) if tail >= NS_PER_US else f"{tail:04}"
            dur = f'"dur": {lasted[:-3]}.{lasted[-3:]}'
            made.append(f'{start}{at[:-3]}.{at[-3:]}, "tid": {thread}{end}, {dur}}}')
        elif type(tail) is tuple:
            args = _USAGE % tail
            made.append(f'{start}{at[:-3]}.{at[-3:]}, "tid": {thread}{end}, "args": {{{args}}}}}')
        else:
            made.append(f'{start}{at[:-3]}.{at[-3:]}, "tid": {thread}{end}{tail}}}')
    return made


class EventFile:
    """File that grows by whole events. It is made with the first one.

    Parameters
    ----------
    path
        Path of the file; its folder is made where it does not exist.
    is_object
        Whether the file holds a JSON object, in place of a JSON array.
    """

    def __init__(self, path: str, is_object: bool) -> None:
        self.path = path
        self._begin, self._end = _BEGIN[is_object], _END[is_object]
        self._file = -1
        self._end_at = 0

    def append(self, new: Iterable[str]) -> None:
        """Write lines and the end of the file in one call, so that a killed program leaves the file whole.

        Raises
        ------
        OSError
            The disk has no room for them; earlier lines stay.
        """
        if self._file < 0:
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        events = ",\n".join(new)
        text = f"{',' + chr(10) if self._end_at else self._begin}{events}".encode()
        end = self._end.encode()
        if os.pwrite(self._file, text + end, self._end_at) < len(text) + len(end):
            self._take_back(end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._end_at += len(text)

    def abandon(self) -> None:
        """Close the file, in this process only."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)

    def _take_back(self, end: bytes) -> None:
        os.ftruncate(self._file, self._end_at)
        if self._end_at:
            os.pwrite(self._file, end, self._end_at)
        else:
            os.unlink(self.path)
