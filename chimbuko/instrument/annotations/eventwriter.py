"""Writes the trace file of a program: in the program itself, or in a process beside it.

A line takes some 0.4 µs to make, under the program's own lock; its fields are handed to another process in a
tenth of that. That process is of no use to anybody else and is nobody's child: it ends with its input.
"""

from __future__ import annotations

import marshal
import os
import signal
from contextlib import suppress

from chimbuko.instrument.annotations.eventfile import EVENT_FIELDS, EventFile, lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

LENGTH_BYTES = 8
WHOLE = b"whole"
"""The last word of the process where all is written; anything else says what went wrong."""


class EventWriter:
    """Writes events of one process.

    Parameters
    ----------
    path, is_object
        Of the file, as ``EventFile`` has them.
    pid
        Whose events they are.
    offset_ns
        Added to a time of an event it gives ns since the epoch.
    """

    def __init__(self, path: str, is_object: bool, pid: int, offset_ns: int) -> None:
        self._file = EventFile(path, is_object)
        self._pid = pid
        self._offset_ns = offset_ns

    def append(self, fields: list[Any]) -> None:
        """Write events, the fields of which come one after the other.

        Raises
        ------
        OSError
            There is no room for them.
        """
        each = iter(fields)
        events = zip(*[each] * EVENT_FIELDS, strict=True)
        self._file.append(lines(events, self._pid, self._offset_ns))

    def finish(self) -> None:
        """All is written already."""

    def abandon(self) -> None:
        """Let go of it, in this process only."""
        self._file.abandon()


def packed(value: Any) -> bytes:
    """One message to the process: what ``EventWriter`` is made of, then fields; None ends them."""
    data = marshal.dumps(value)
    return len(data).to_bytes(LENGTH_BYTES, "little") + data


def main() -> None:
    """Write what comes by standard input, and say by standard output how that ended."""
    # Its parent waits for this one alone: a program may wait for any child and must not meet a stranger.
    if os.fork():
        os._exit(0)
    os.setsid()
    # What a scheduler sends to all is for the program.
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
    """The next one; None where the program has ended, perhaps in the middle of one."""
    length = int.from_bytes(source.read(LENGTH_BYTES), "little")
    data = source.read(length)
    return data if length and len(data) == length else None


if __name__ == "__main__":
    main()
