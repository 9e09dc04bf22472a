"""Counts the messages in recorded streams."""

from __future__ import annotations

from collections.abc import Iterable

from chimbuko.capture.trace.discovery import StreamName
from chimbuko.capture.trace.engines import BP_FILE
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import EventType, TraceStep
from chimbuko.monitor.report.matrix import MessageMatrix

NO_MORE_S = 1.0
"""A recorded file that offers no further step for so long was never closed."""


def count_messages(streams: Iterable[StreamName]) -> tuple[dict[str, MessageMatrix], list[str]]:
    """The matrix of each program, and what could not be read."""
    found: dict[str, MessageMatrix] = {}
    complaints = []
    for stream in streams:
        matrix = found.setdefault(stream.program, MessageMatrix())
        matrix.ranks = max(matrix.ranks, stream.rank + 1)
        try:
            with StreamReader(stream.path, BP_FILE, NO_MORE_S, first_rank=stream.first_rank) as reader:
                while isinstance(step := reader.next_step(NO_MORE_S), TraceStep):
                    numbers = (reader.names.event_type_id(one) for one in (EventType.SEND, EventType.RECV))
                    matrix.add(step.comms, *numbers)
        except TraceFormatError as error:
            complaints.append(str(error))
    return found, complaints
