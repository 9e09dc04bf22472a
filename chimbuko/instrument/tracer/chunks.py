"""Values that a traced program hands over to the writer of its stream, pickled into a socket."""

from __future__ import annotations

from typing import NamedTuple

from chimbuko.instrument.tracer.places import Launched

ENTRY, EXIT, SEND, RECEIVE = range(4)
"""Event type ids of our streams, numbered as TAU usually does."""

COMPLETE = "complete"
"""Last message of the writer when the stream is whole; any other says what went wrong."""

EVENT_COLUMNS = 2
"""Columns of an event: code and time; a code is ``timer << 1 | event type``."""
COMM_COLUMNS = 5
"""Columns of a message: event type, tag, partner rank, bytes, time."""
DETAIL_COLUMNS = 2
"""Columns of the details of a message: communicator and request."""
OPERATION_COLUMNS = 7
"""Columns of an operation that is no message: kind, communicator, peer, number, bytes, request, time."""
COUNTER_COLUMNS = 3
"""Columns of a counter's value: counter, value, time."""

THREAD_NAME = "Thread Name"
"""Key of metadata, as in imported traces."""

ROOT_TIMER = 0
TIME_COUNTER_NAME = "TIME"
"""Name of TAU's counter 0, which has no rows."""


class Header(NamedTuple):
    """Description of a traced process, sent before the first handover."""

    program: str
    rank: int
    """Rank that the launcher says, or that of the first process of the family."""
    clock_offset_ns: int
    """Offset that turns a time of the program's clock into ns since the Unix epoch."""
    parent_pid: int = 0
    """Process id of the process that forked or started this one; 0 for a family's first."""
    is_forked: bool = False
    """Whether the process was forked, and so began inside calls of its parent."""
    launched: Launched = Launched()
    """Statements of its launcher, read by the process itself: it may have ended when the header is read."""


class Children(NamedTuple):
    """Processes that a process has started so far."""

    forks: int = 0
    programs: dict[int, str] | None = None
    """Names of the programs since the last handover, by process id."""
    others: int = 0
    """Number of further programs, beyond those that are named."""


class ThreadRows(NamedTuple):
    """New rows of one thread: int64, in order of time; the last column is in ns of the program's clock."""

    thread: int
    events: bytes
    comms: bytes
    counters: bytes
    details: bytes = b""
    """Details for each row of ``comms``; empty if the messages of the program have none."""
    operations: bytes = b""
    native_id: int = 0
    """Number of the thread for the system, where the thread runs Python."""


class Handover(NamedTuple):
    """Rows and names that are new since the last handover."""

    complete_until_ns: int
    """Time before which all rows are here: a step that ends at it separates no message from its call."""
    threads: list[ThreadRows]
    timers: dict[int, str]
    counters: dict[int, str]
    metadata: dict[tuple[int, str], str] = {}  # noqa: RUF012
    """Values by thread and key."""
    children: Children = Children()
    is_last: bool = False
    rings: str = ""
    """Folder into which the recorder of the program writes; empty if none is loaded."""
