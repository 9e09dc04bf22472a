"""Provenance records: the data kept of an abnormal call, and of a normal one for comparison.

All times are µs since the Unix epoch on the trace's clock. The scalar fields of a call are in
``chimbuko.core.calls.schema``. A record is sent again, with a higher ``revision``, as its window fills; the
store keeps the highest revision of an id.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.schema import CallFields
from chimbuko.core.sourcecensus import SourceCensus

RECORD_VERSION = 1


class _Duration(Protocol):
    """A number, an array of them, or a column of a table."""

    def __add__(self, other: Any, /) -> Any: ...


Duration = TypeVar("Duration", bound=_Duration)


CLEARLY = 3.0
"""Least factor between what is usual of comparable calls and what is usual of the function; below it the
latter is expected.
"""


def severity_us(runtime_us: Float64Array | float, expected_us: Float64Array | float) -> Float64Array:
    """Return the time lost: the difference of the judged runtimes from the expected ones, where positive;
    float64[n] each.
    """
    return np.maximum(runtime_us - expected_us, 0.0)


def judged_us(expected_us: Duration, lost_us: Duration) -> Duration:
    """Return the runtime by which a call was judged, which no record has as such."""
    judged: Duration = expected_us + lost_us
    return judged


def call_id(program: int, rank: int, step: int, row: int) -> str:
    """Return the id of a call: the place of its ENTRY, so the same however and however often the trace is
    read.
    """
    return f"{program}:{rank}:{step}:{row}"


FIRST_STRETCH_ROW = -2
"""Row in the id of a stretch that a long call spent in its own code before its call of row 0."""


def stretch_row(row: int) -> int:
    """Return the row in the id of a stretch that a long call spent in its own code before it made the call
    of this row.
    """
    return FIRST_STRETCH_ROW - row


class StackFrame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call of a call stack."""

    id: str
    function: str
    entry_us: int
    exit_us: int
    """Time of the EXIT; 0 while the call is open."""
    is_anomaly: bool


class WindowCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One neighbour, in order of entry on the same thread; the call itself is among them."""

    id: str
    function: str
    entry_us: int
    exit_us: int
    """Time of the EXIT; 0 while the call is open."""
    parent_id: str
    """Id of the caller; empty for a call without one."""
    depth: int
    is_anomaly: bool


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message sent or received inside a call of the window."""

    kind: str
    """``SEND`` or ``RECV``."""
    source: int
    destination: int
    tag: int
    size_bytes: int
    time_us: int
    call_id: str
    communicator: int = 0
    """Number of the communicator, the same for all its members; 0 if it is not known."""
    number: int = 0
    """Number of the message, from 1, among those from its source to its destination with its tag on its
    communicator. It is the same at both ends: the n-th receive that was posted gets the n-th message that
    was sent. 0 where that is not certain.
    """


class Collective(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A collective operation that was entered inside a call of the window."""

    communicator: int
    number: int
    """Number of the operation on the communicator, from 1; the same on all its members."""
    root: int
    """Root of the operation; the rank itself where it has none."""
    size_bytes: int
    """Number of bytes that this rank gives or gets."""
    time_us: int
    call_id: str


class CounterValue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One counter value recorded inside a call of the window, or one watched counter of the step."""

    counter: str
    value: int
    time_us: int
    call_id: str
    """Id of the call; empty for a watched counter, which belongs to the node and not to a call."""


class CallRecord(CallFields, frozen=True, kw_only=True):
    """One call with all data kept about it."""

    call_stack: list[StackFrame]
    """Call stack, the call itself first, outermost last."""
    window: list[WindowCall]
    messages: list[Message]
    counters: list[CounterValue]
    node_state: list[CounterValue]
    """Values of the watched counters in the step."""
    metrics: list[CounterValue]
    """Increase of each metric of ``TAU_METRICS`` between the last EXIT before the call and its own."""
    launch_stack: list[StackFrame]
    """Call stack of the call that launched it on the GPU, itself first; empty without one."""
    collectives: list[Collective] = msgspec.field(default_factory=list)
    """Collective operations, where the trace has them, as that of our recorder."""


class StepCount(msgspec.Struct, frozen=True, array_like=True):
    """Counts of the analysis of one step of one rank; written for every analysed step."""

    program: int
    rank: int
    step: int
    start_us: int
    end_us: int
    calls: int
    anomalies: int
    severity_us: float
    highest_score: float = 0.0
    """Highest score of the anomalies; 0 without any."""
    computing_us: int = 0
    """Time that threads spent in their own code in this step, also in calls that go on; this and what follows
    are in the order of ``TimeKind``, and 0 where nothing is known of them.
    """
    mpi_us: int = 0
    io_us: int = 0
    gpu_us: int = 0
    awaiting_us: int = 0


UNREAD_STREAMS = "streams not read: no room in $TMPDIR"
"""Kind of loss of streams that were not read; this and the following kinds are those for which there was no
room.
"""
UNREADABLE_STREAMS = "streams given up: no memory left for them"
NO_ROOM_STEPS = "steps missing in the statistics: no room in $TMPDIR"
NO_ROOM_RECORDS = "records of abnormal calls: no room in $TMPDIR"
BEYOND_BUDGET = "records of abnormal calls: more than the store can take"
NO_ROOM_RECORDERS = "flight recorders: no room in $TMPDIR"
NO_ROOM_OPEN_CALLS = "lists of open calls: no room in $TMPDIR"

READING, SILENT, ENDED = "reading", "silent", "ended"
"""States of a stream."""


class Silence(msgspec.Struct, frozen=True, array_like=True):
    """Silence of a stream: since when it gives no step, and where its rank is."""

    since_us: int
    """Time of the stream's newest event."""
    function: str
    """Innermost open call of the main thread, as far as is known; empty if none is."""
    entry_us: int
    """Time at which that call was entered."""
    stack: list[str] = []
    """Open calls of the main thread, outermost first; empty where only the innermost one is known."""


class StreamHealth(msgspec.Struct, frozen=True, array_like=True):
    """Running totals of one stream: what was read, and what was lost, by kind."""

    program: int
    rank: int
    node: str
    state: str
    """State: ``reading``, ``silent``, ``ended``, ``broken`` (without an end) or ``lost`` (nobody could read
    it).
    """
    steps: int
    rows: int
    size_bytes: int
    calls: int
    anomalies: int
    gap_steps: int
    losses: dict[str, int]
    """Number of rows or calls not used, by kind; only kinds that occurred."""
    silence: Silence | None = None
    """Silence of the stream, while the state is ``silent``; in the store also of one that ended so."""
    largest_step_bytes: int = 0
    open_calls: int = 0
    """Number of calls that have begun and not ended in what was read so far."""
    source: SourceCensus | None = None
    """Census of what recorded the stream; None until its last step, and of one that does not count."""
    threads: int = 0
    """Number of threads with events; those of GPUs do not count, nor in what follows."""
    thread_us: int = 0
    """Time of all of them together, each from its first to its last event."""
    gap_us: int = 0
    """Part of that time that lies in gaps of the stream."""
    gpu_us: int = 0
    """Time of calls on GPUs."""


class CounterStatistics(msgspec.Struct, frozen=True, array_like=True):
    """Running totals of one counter of one stream; moments as in ``chimbuko.core.statistics.moments``."""

    name: str
    n: float
    mean: float
    m2: float
    m3: float
    m4: float
    minimum: float
    maximum: float


class Metadata(msgspec.Struct, frozen=True, array_like=True):
    """One metadata attribute of a stream."""

    program: int
    rank: int
    thread: int
    key: str
    value: str


LEAST_LOOKED_US = 200_000.0
"""Time for which looks must stand before their shares say anything: ten looks."""


def slept_us(spent_us: float, looked_us: float, asleep_us: float) -> float | None:
    """Return how much of the exclusive time of calls their threads slept; None where too few looks say so.

    Parameters
    ----------
    spent_us
        Exclusive time of the calls.
    looked_us, asleep_us
        Time for which the looks stand that found these calls innermost, and the part of it asleep. Looks
        begin later than the program, and some are lost: they give the share, and not the time.
    """
    if looked_us < LEAST_LOOKED_US:
        return None
    return spent_us * min(1.0, asleep_us / looked_us)
