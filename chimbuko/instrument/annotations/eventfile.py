"""A trace file of PerfFlowAspect's form: one event a line, valid JSON whenever whoever writes it dies."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_BEGIN = {False: "[\n", True: '{"displayTimeUnit": "us", "otherData": {}, "traceEvents": [\n'}
_USAGE = '"cpu_usage": %r, "thread_cpu_usage": %r, "memory_usage": %r'
_END = {False: "\n]\n", True: "\n]}\n"}


NS_PER_US = 1000
EVENT_FIELDS = 4
Usage = tuple[float, float, float]
"""CPU time of the process, and of the thread, in percent of the wall time; resident memory in 1,000 bytes."""
UNUSED: Usage = (0, 0, 0)
Event = tuple[str, int, int, "str | int | Usage"]
"""Head of its line, native id of its thread, time in ns, and the tail of its line, from a comma on; or, of a
whole call (``X``), its duration in ns; or, of a counter (``C``), what was used."""


def head(name: str, category: str, phase: str) -> str:
    """How the lines of a function begin that have a phase, as the Chrome trace format has it."""
    return f'{{"name": {json.dumps(name)}, "cat": {json.dumps(category)}, "ph": "{phase}", "ts": '


def lines(events: Iterable[Event], pid: int, offset_ns: int) -> list[str]:
    """Events as they stand in the file.

    Parameters
    ----------
    offset_ns
        Added to a time it gives ns since the epoch.
    """
    # At 5,000 calls a second each µs is half a percent of the program's time. Divisions take twice as long,
    # and so does a line that is put together of more parts.
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
    """A file that grows by whole events. It is there once it has one.

    Parameters
    ----------
    path
        Its folder is made where it is not there.
    is_object
        It holds a JSON object, in place of a JSON array.
    """

    def __init__(self, path: str, is_object: bool) -> None:
        self.path = path
        self._begin, self._end = _BEGIN[is_object], _END[is_object]
        self._file = -1
        self._end_at = 0

    def append(self, new: Iterable[str]) -> None:
        """Write lines in one call, with what ends the file, so that a killed program leaves it whole.

        Raises
        ------
        OSError
            There is no room for them; what came before them stays.
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
        """Let go of it, in this process only."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)

    def _take_back(self, end: bytes) -> None:
        os.ftruncate(self._file, self._end_at)
        if self._end_at:
            os.pwrite(self._file, end, self._end_at)
        else:
            os.unlink(self.path)
