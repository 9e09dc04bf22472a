"""What a traced program hands to the process that writes its stream: plain values, pickled into a pipe."""

from __future__ import annotations

from dataclasses import dataclass, field

ENTRY, EXIT, SEND, RECEIVE = range(4)
"""Event type ids of our streams, numbered as TAU usually does."""

COMPLETE = "complete"
"""The writer's last word when the stream is whole; anything else says what went wrong."""

EVENT_COLUMNS = 2
"""Code and time; a code is ``timer << 1 | event type``."""
COMM_COLUMNS = 5
"""Event type, tag, partner rank, bytes, time."""
COUNTER_COLUMNS = 3
"""Counter, value, time."""

ROOT_TIMER = 0
TIME_COUNTER_NAME = "TIME"
"""TAU's counter 0, which has no rows."""


@dataclass(frozen=True)
class Header:
    """Comes first."""

    program: str
    rank: int
    clock_offset_ns: int
    """Added to a time of the program's clock it gives ns since the Unix epoch."""


@dataclass(frozen=True)
class ThreadRows:
    """New rows of one thread: int64, in order of time; the last column is ns of the program's clock."""

    thread: int
    events: bytes
    comms: bytes
    counters: bytes


@dataclass(frozen=True)
class Handover:
    """What is new since the last one."""

    complete_until_ns: int
    """No row older than this is still to come: a step that is cut here tears no message from its call."""
    threads: list[ThreadRows]
    timers: dict[int, str]
    counters: dict[int, str]
    metadata: dict[tuple[int, str], str] = field(default_factory=dict)
    """(thread, key) to value."""
    is_last: bool = False
