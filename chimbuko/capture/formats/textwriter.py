"""Writer of a trace as text: one event a line, for reading and for tools of lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from chimbuko.capture.formats.moments import Edge, Moment, Value
from chimbuko.core.names import visible
from chimbuko.core.traceschema import StreamNames

HEAD = "RANK  THREAD           TIME_US  EVENT    WHAT"


class Writer:
    """Writes one file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._line(HEAD)

    def begin_rank(self, rank: int, name: str) -> None:
        """Begin the rank that everything that follows belongs to."""
        self._rank = rank
        self._line(f"# rank {rank}: {name}")

    def write(self, moments: Iterable[Moment], names: StreamNames) -> None:
        """Write the next events of the rank, in order of time: they come kind by kind."""
        for moment in sorted(moments, key=lambda one: one.time_us):
            event, what = _described(moment)
            self._line(f"{self._rank:4}  {moment.thread:6}  {moment.time_us:16}  {event:7}  {what}")

    def close(self) -> None:
        """Write nothing: the last event is the end."""

    def _line(self, text: str) -> None:
        self._file.write(visible(text).encode("utf-8", "replace") + b"\n")


def _described(moment: Moment) -> tuple[str, str]:
    """Return the kind of an event, and the rest of its line."""
    if isinstance(moment, Edge):
        return ("enter" if moment.is_begin else "leave"), moment.function
    if isinstance(moment, Value):
        return "counter", f"{moment.counter} = {moment.value}"
    source, destination, *_ = moment.flow.split(":")
    partner = f"to rank {destination}" if moment.is_send else f"from rank {source}"
    return "send" if moment.is_send else "receive", f"{moment.size_bytes} bytes {partner}, tag {moment.tag}"
