"""A file of Chrome's trace events on its way: one event a line, in an object or an array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, Final

import msgspec

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
        """The next event, with further keys as they come."""
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
