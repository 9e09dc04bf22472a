"""TAU's ADIOS2 trace layout: the variables of a step and the columns of its arrays.

Source: TAU's ADIOS2 trace plugin; timestamps are µs since the Unix epoch.

Our recorder knows more of MPI than that layout holds, and writes it in two further variables, which TAU's
streams and our Python tracer's lack, and which readers of TAU's streams pass over: the communicator and the
request of a message (``comm_details``), and what MPI did beside messages (``mpi_operations``).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec
import numpy as np

from chimbuko.core.arrays import UInt64Array

EVENTS: Final = "event_timestamps"
COMMS: Final = "comm_timestamps"
COUNTERS: Final = "counter_values"
DETAILS: Final = "comm_details"
OPERATIONS: Final = "mpi_operations"
ARRAY_COUNTS: Final = {
    EVENTS: "timer_event_count",
    COMMS: "comm_count",
    COUNTERS: "counter_event_count",
    DETAILS: "comm_count",
    OPERATIONS: "mpi_operation_count",
}
SCALARS: Final = (
    "program_count",
    "comm_rank_count",
    "thread_count",
    "event_type_count",
    "timer_count",
    "counter_count",
)

ROOT_TIMER_NAME: Final = ".TAU application"
"""Name of the outermost call of a program's main thread; it ends with the program, in the last step."""

UNRESOLVED: Final = "addr=<"
"""Beginning of the name of a function of which TAU knows only the address."""

UNTRACED_CHILDREN: Final = "Child Processes Not Traced"
"""Key of metadata of our tracer: how many processes a rank has started that are no ranks, and which."""

PARENT_PROCESS: Final = "Parent Process"
"""Key of metadata of our tracer: who started a child process; others have none."""

ENDING: Final = "Ending"
"""Key of metadata of our tracers: how a process ended that did not end in order."""

LEFT_OUT_FUNCTIONS: Final = "Functions Left Out"
"""Key of metadata of our recorder: calls, too short and too many, that it did not record, and what to do."""

LEFT_OUT_AT_TIMES: Final = "Timers Left Out at Times "
"""Beginning of the keys of metadata of our recorder, which a number from 0 on follows: timers, apart by
blanks, of which from this step on calls may be missing.
"""

RECORDED_AGAIN: Final = "Timers Recorded Again "
"""Beginning of the keys of metadata of our recorder, as above: timers that were left out, and whose calls are
all there since a second before this step.
"""

NOT_RECORDED: Final = "Not Recorded"
"""Key of metadata of our recorders: what they did not record, although they were to."""

UNNAMED_FUNCTIONS: Final = "Functions without a name in "
"""Beginning of the key of our own metadata of a rank that says why functions of a binary have no names; the
binary follows.
"""

MAX_TIMERS: Final = 1 << 17
"""Number of timers of a stream that are told apart: tables have a row for each, 330 MB with the default
detector.
"""
OTHER_TIMER: Final = MAX_TIMERS - 1
"""Timer that all those share which come after the others."""
OTHER_FUNCTIONS: Final = "other functions"
"""Name of ``OTHER_TIMER``."""
SHARED_ROW: Final = "Functions in One Row"
"""Key of our own metadata of a rank: how many functions share ``OTHER_TIMER``."""

MPI_PREFIX: Final = "MPI_"
OPENMP_PREFIX: Final = "OpenMP "
"""Beginning of the names that our recorder gives to constructs of OpenMP; the construct follows."""
"""Beginning of the name of a function in which a rank may wait for others."""

MAX_TIME_US: Final = 1 << 53
"""Maximum possible time, in the year 2255: a time from here on, like a time of 0, is damage."""

LOST_STEPS: Final = "lost-steps"
"""Name of the file in the folder of a kept stream with the numbers of steps whose data is missing, a line
each.
"""


# Plain numbers, since they stand in compiled loops.
EVENT_PROGRAM, EVENT_RANK, EVENT_THREAD, EVENT_TYPE, EVENT_TIMER, EVENT_TIME = range(6)
EVENT_COLUMNS: Final = 6
"""Number of columns of ``event_timestamps``, shape (N, 6)."""

COMM_PROGRAM, COMM_RANK, COMM_THREAD, COMM_TYPE, COMM_TAG, COMM_PARTNER, COMM_SIZE, COMM_TIME = range(8)
COMM_COLUMNS: Final = 8
"""Number of columns of ``comm_timestamps``, shape (N, 8)."""

COUNTER_PROGRAM, COUNTER_RANK, COUNTER_THREAD, COUNTER_NUMBER, COUNTER_VALUE, COUNTER_TIME = range(6)
COUNTER_COLUMNS: Final = 6
"""Number of columns of ``counter_values``, shape (N, 6)."""

DETAIL_COMMUNICATOR, DETAIL_REQUEST = range(2)
DETAIL_COLUMNS: Final = 2
"""Number of columns of ``comm_details``, shape (N, 2): row i is of row i of ``comm_timestamps``. A
communicator is a number that all its members have in common; a request is a number of its rank, 0 for a
call that has none: the SEND and the COMPLETED, or the RECEIVE_POSTED and the RECV, of one request have the
same.
"""

(
    OPERATION_PROGRAM,
    OPERATION_RANK,
    OPERATION_THREAD,
    OPERATION_KIND,
    OPERATION_COMMUNICATOR,
    OPERATION_PEER,
    OPERATION_NUMBER,
    OPERATION_SIZE,
    OPERATION_REQUEST,
    OPERATION_TIME,
) = range(10)
OPERATION_COLUMNS: Final = 10
"""Number of columns of ``mpi_operations``, shape (N, 10). ``PEER`` is a rank or ``NO_PEER``. See
:class:`Operation`.
"""
NO_PEER: Final = (1 << 64) - 1
COLLECTIVE_TYPE: Final = (1 << 64) - 1
"""Event type that marks a collective operation in a row among the messages."""

ARRAY_COLUMNS: Final = {
    EVENTS: EVENT_COLUMNS,
    COMMS: COMM_COLUMNS,
    COUNTERS: COUNTER_COLUMNS,
    DETAILS: DETAIL_COLUMNS,
    OPERATIONS: OPERATION_COLUMNS,
}
NO_DETAILS: Final = np.empty((0, DETAIL_COLUMNS), np.uint64)
NO_OPERATIONS: Final = np.empty((0, OPERATION_COLUMNS), np.uint64)


class EventType(IntEnum):
    """Event type ids as TAU usually numbers them; the stream's own map, where present, decides."""

    ENTRY = 0
    EXIT = 1
    SEND = 2
    RECV = 3


class Operation(IntEnum):
    """Kind of a row of ``mpi_operations``; its time lies in the MPI call that did it."""

    COLLECTIVE = 1
    """Collective operation that was entered, or begun. ``NUMBER`` counts the collective operations on its
    communicator, the same on all its members, from 0; ``PEER`` is the root, if it has one; ``SIZE`` is the
    number of bytes that this rank gives or gets.
    """
    RECEIVE_POSTED = 2
    """Receive that does not wait; ``PEER`` is its source and ``NUMBER`` its tag, as asked for: ``NO_PEER``
    for any.
    """
    COMPLETED = 3
    """End of a request that is no receive (that of a receive is its RECV)."""
    ONE_SIDED = 4
    """Reading or writing of the memory of ``PEER``."""
    SYNCHRONISATION = 5
    """Synchronisation of one-sided operations: locks, flushes, epochs."""


def unnamed_timer(number: int) -> str:
    """Return the name that stands for a timer whose name never came."""
    return f"timer {number} (name not received)"


class StreamNames(msgspec.Struct):
    """Names that the attributes of one stream have given so far. Ids are the stream's own, not global."""

    timers: dict[int, str] = msgspec.field(default_factory=dict)
    counters: dict[int, str] = msgspec.field(default_factory=dict)
    event_types: dict[int, str] = msgspec.field(default_factory=dict)
    program: str = ""
    metadata: dict[tuple[int, int, str], str] = msgspec.field(default_factory=dict)
    """Value of each (rank, thread, key)."""
    last_timer: int = 0
    """Highest number of a timer that shares ``OTHER_TIMER``, which alone is in ``timers``; 0 for none."""

    def share_timers_to(self, last_timer: int) -> None:
        """Have the timers from ``OTHER_TIMER`` on to this one share that one."""
        if last_timer >= OTHER_TIMER:
            self.last_timer = max(self.last_timer, last_timer)
            self.timers[OTHER_TIMER] = OTHER_FUNCTIONS

    def say_sharing(self, rank: int) -> None:
        """Note in the metadata of a rank how many functions share ``OTHER_TIMER``, if any do."""
        if self.last_timer:
            self.metadata[rank, 0, SHARED_ROW] = f"{self.last_timer - OTHER_TIMER + 1} functions"

    def of_kind(self, kind: str) -> dict[int, str]:
        """Return names of timers, counters or event types, as attributes call their ``kind``."""
        return {"timer": self.timers, "counter": self.counters, "event_type": self.event_types}[kind]

    def timer_name(self, number: int) -> str:
        """Return the name of a timer, or the one that stands for a name that never came."""
        return self.timers.get(number) or unnamed_timer(number)

    def event_type_id(self, kind: EventType) -> int:
        """Return the id that this stream uses for ``kind``; TAU's usual one until the stream has said."""
        for number, name in self.event_types.items():
            if name == kind.name:
                return number
        return int(kind)


class TraceStep(msgspec.Struct, frozen=True):
    """One step of one stream.

    The arrays are views of the reader's buffers and are valid until its next step is read.
    """

    step: int
    """Step number of the writer: a jump by more than one is a gap."""
    events: UInt64Array
    """Rows (N, 6), columns ``EVENT_*``."""
    comms: UInt64Array
    """Rows (N, 8), columns ``COMM_*``."""
    counters: UInt64Array
    """Rows (N, 6), columns ``COUNTER_*``."""
    details: UInt64Array = msgspec.field(default_factory=lambda: NO_DETAILS)
    """Rows (N, 2), columns ``DETAIL_*``, as many as ``comms``, or none."""
    operations: UInt64Array = msgspec.field(default_factory=lambda: NO_OPERATIONS)
    """Rows (N, 10), columns ``OPERATION_*``; none if the source has none."""

    def interval_us(self) -> tuple[int, int] | None:
        """First and last possible time of an event; None if there is none."""
        times = self.events[:, EVENT_TIME]
        if not len(times):
            return None
        first, last = int(times.min()), int(times.max())
        if first == 0 or last >= MAX_TIME_US:
            possible = times[(times > 0) & (times < MAX_TIME_US)]
            return (int(possible.min()), int(possible.max())) if len(possible) else None
        return first, last

    def last_timer(self, thread: int) -> int | None:
        """Return the timer of the last event of a thread, given by TAU's id; None if it has none."""
        timers = self.events[self.events[:, EVENT_THREAD] == thread, EVENT_TIMER]
        return int(timers[-1]) if len(timers) else None

    @property
    def rows(self) -> int:
        """Number of rows of all three arrays."""
        return len(self.events) + len(self.comms) + len(self.counters)

    @property
    def size_bytes(self) -> int:
        """Size of all three arrays in bytes."""
        return self.events.nbytes + self.comms.nbytes + self.counters.nbytes
