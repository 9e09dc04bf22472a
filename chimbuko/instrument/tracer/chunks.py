"""What a traced program hands to the process that writes its stream: plain values, pickled into a socket."""

from __future__ import annotations

from typing import NamedTuple

ENTRY, EXIT, SEND, RECEIVE = range(4)
"""Event type ids of our streams, numbered as TAU usually does."""

COMPLETE = "complete"
"""The writer's last word when the stream is whole; anything else says what went wrong."""

EVENT_COLUMNS = 2
"""Code and time; a code is ``timer << 1 | event type``."""
COMM_COLUMNS = 5
"""Event type, tag, partner rank, bytes, time."""
DETAIL_COLUMNS = 2
"""Communicator and request of a message."""
OPERATION_COLUMNS = 7
"""Kind, communicator, peer, number, bytes, request, time: of MPI's operations that are no messages."""
COUNTER_COLUMNS = 3
"""Counter, value, time."""

ROOT_TIMER = 0
TIME_COUNTER_NAME = "TIME"
"""TAU's counter 0, which has no rows."""


class Header(NamedTuple):
    """Comes first."""

    program: str
    rank: int
    """As the launcher says, or that of the process that the family began with."""
    clock_offset_ns: int
    """Added to a time of the program's clock it gives ns since the Unix epoch."""
    parent_pid: int = 0
    """Of the process that forked or started this one; 0 for a family's first."""
    is_forked: bool = False
    """Whether it has its parent's memory, and so began inside calls of its parent."""


class Children(NamedTuple):
    """What a process has started so far."""

    forks: int = 0
    programs: dict[int, str] | None = None
    """Names of the programs by process id, those since the last handover."""
    others: int = 0
    """Programs that were started beyond those that are named."""


class ThreadRows(NamedTuple):
    """New rows of one thread: int64, in order of time; the last column is ns of the program's clock."""

    thread: int
    events: bytes
    comms: bytes
    counters: bytes
    details: bytes = b""
    """One for each row of ``comms``; none of a program whose messages have none."""
    operations: bytes = b""


class Handover(NamedTuple):
    """What is new since the last one."""

    complete_until_ns: int
    """No row older than this is still to come: a step that is cut here tears no message from its call."""
    threads: list[ThreadRows]
    timers: dict[int, str]
    counters: dict[int, str]
    metadata: dict[tuple[int, str], str] = {}  # noqa: RUF012
    """(thread, key) to value."""
    children: Children = Children()
    is_last: bool = False
