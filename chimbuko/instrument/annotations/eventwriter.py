"""Writer of the trace file of a program: in the program itself, or in a process beside it.

A line takes some 0.4 µs to make, under the program's interpreter lock; its fields are handed to another
process in a tenth of that. That process is not a child of the program, and ends with its input.
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
"""Last message of the process when all is written; any other says what went wrong."""


class EventWriter:
    """Writer of the events of one process.

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
