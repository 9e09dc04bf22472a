"""Messages between agents, parameter server, store and dashboard, over a broker that speaks Redis.

They are small typed values in msgpack; tables travel as raw little-endian bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from chimbuko.core.calls.rawrows import RecordedStep
from chimbuko.core.calls.record import READING, CounterStatistics, Metadata, StepCount, StreamHealth, slept_us
from chimbuko.core.calls.recordarrays import COUNTER, HEAD, MEMBER, MESSAGE, PackedRecords
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.core.statistics.schema import BUCKETED_PROFILE, PROFILE, STORED_PROFILE, PackedTable
from chimbuko.core.traceschema import StreamNames
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.telemetry import (
    BEGUN,
    FLAGGED,
    PACE,
    TIMER,
    TRAFFIC,
    SlowRank,
    TelemetryChanges,
    TelemetryDelta,
)

_encoder = msgspec.msgpack.Encoder()

NO_EPOCH = -1
ALL_EPOCHS = 1 << 60
"""Closed epoch of a stream that has ended."""

PAYLOAD = b"m"
"""Field of a stream entry that holds the encoded message."""


VERSION = 12
"""Version of all messages: it changes with any of them, and messages of another one are ignored."""
_LAYOUTS = (HEAD, MEMBER, MESSAGE, COUNTER, BEGUN, FLAGGED, FLAGGED_STEPS, PACE, TIMER, TRAFFIC)
"""Dtypes of the rows that travel as they lie in memory; not those of call paths, whose module loads kernels.
"""
_TABLES = (PROFILE, BUCKETED_PROFILE, STORED_PROFILE)
"""Tables of statistics that travel by their columns' places."""


def _checksum() -> bytes:
    return zlib.crc32(repr((_LAYOUTS, _TABLES)).encode()).to_bytes(4, "little")


Message = TypeVar("Message")


class ForeignMessage(msgspec.DecodeError):
    """A message of another version, or of another run."""


class Seal:
    """Header of each message of a run: the version of all messages, and the run's id.

    With the version's number goes a checksum of the layouts of rows and tables: a new field of a call, or a
    new column of the statistics, makes another version.
    """

    def __init__(self, run_id: str) -> None:
        run = run_id.encode()
        self._version = bytes((VERSION,)) + _checksum()
        self._head = self._version + bytes((len(run),)) + run

    def encode(self, message: msgspec.Struct) -> bytes:
        """Return a message as it is sent."""
        return self.enclose(_encoder.encode(message))

    def enclose(self, encoded: bytes) -> bytes:
        """Return a message as it is sent, from one that is encoded already."""
        return self._head + encoded

    def decode(self, payload: bytes, decoder: msgspec.msgpack.Decoder[Message]) -> Message:
        """Return a message that was received.

        Raises
        ------
        ForeignMessage
            The message is of another version, or another run.
        msgspec.MsgspecError
            The message is damaged.
        """
        if not payload.startswith(self._head):
            raise ForeignMessage(self._why_not(payload))
        return decoder.decode(memoryview(payload)[len(self._head) :])

    def decoded(
        self, entries: Iterable[tuple[bytes, bytes]], decoder: msgspec.msgpack.Decoder[Message]
    ) -> Iterator[Message]:
        """Yield the messages among entries of a stream; write a line into the log for each that is not
        understood.
        """
        for entry, payload in entries:
            try:
                yield self.decode(payload, decoder)
            except msgspec.MsgspecError as error:
                log(f"message {entry.decode()} is left out: {error}")

    def _why_not(self, payload: bytes) -> str:
        own = len(self._version)
        version, length = payload[:own], (*payload[own : own + 1], 0)[0]
        if version != self._version:
            theirs, ours = (f"{one[0] if one else 0}-{one[1:].hex()}" for one in (version, self._version))
            return f"it is of version {theirs} of the messages, not {ours}: another Chimbuko is at work"
        return f"it is of the run {payload[own + 1 : own + 1 + length].decode(errors='replace')}"


class FunctionName(msgspec.Struct, frozen=True, array_like=True):
    """Identity of a function across ranks and runs, and its number in the table that follows."""

    number: int
    program: int
    name: str


class ContainedDeltas(msgspec.Struct, frozen=True, array_like=True):
    """Deltas of one agent in one of a leaf server, with what cannot be merged with that of others."""

    incarnation: int
    sequence: int
    """Number of the last one of them."""
    names: list[FunctionName]
    """Functions that they mention for the first time, with the agent's numbers."""
    telemetry: TelemetryDelta
    """Paces, and the agent's figures and node; functions have the leaf's numbers."""
    is_leaf: bool = False


class Delta(msgspec.Struct, frozen=True, array_like=True):
    """Changes at one agent since its last delta, or at all agents of a leaf server together. Numbers of
    functions are the sender's own.
    """

    agent: str
    incarnation: int
    sequence: int
    """Number of the delta, counted from 1, and continued by later incarnations of the agent; the server takes
    each delta once, and in order.
    """
    since: int
    """Number of the first delta that the agent can still send again."""
    closed_epochs: dict[str, int]
    """Last epoch that each stream, by key, has ended; only lockstep needs it."""
    names: list[FunctionName]
    """Functions that this delta mentions for the first time."""
    rows: bytes
    """Function numbers, int32[n]."""
    table: PackedTable
    """Rows of these functions, without anomalies: those are in ``telemetry``."""
    steps: list[StepCount]
    health: list[StreamHealth]
    telemetry: TelemetryDelta = TelemetryDelta()
    is_leaf: bool = False
    """Whether the sender is a leaf server, and no agent."""
    contained: dict[str, ContainedDeltas] = {}
    """Deltas of agents that are merged into this one, by agent; each agent's follow those before."""
    lost: int = 0
    """Number of further deltas of these agents that nobody can send again."""


class Acknowledgement(msgspec.Struct, frozen=True, array_like=True):
    """Progress of the server with the deltas of one agent."""

    incarnation: int
    merged: int
    """Number of the last delta that is merged: all versions of the model from now on contain it."""
    saved: int
    """Number of the last delta that outlives the server: the agent may forget it."""


class ModelUpdate(msgspec.Struct, frozen=True, array_like=True):
    """Changes of the global model since ``version - 1``. Numbers are global."""

    server: int
    """Id of the server; another one numbers functions anew."""
    version: int
    closed_epoch: int
    """Last epoch that every stream has ended; only lockstep needs it."""
    functions: int
    """Number of functions that have a number."""
    numbers: bytes
    """Numbers of the functions whose row is a new one, int32[n]."""
    agents: int = 1
    """Number of agents: few exchange more often than many."""
    table: PackedTable | None = None
    """Rows of ``numbers`` in this order, in lockstep, where streams wait for them."""
    acknowledgements: dict[str, Acknowledgement] = {}
    """Deltas that this version contains: in lockstep of all agents, else of those that have sent something
    since the last one, where they are few.
    """


class PathTimes(msgspec.Struct, frozen=True, array_like=True):
    """Runtimes of the calls of a stream by call path, since it began."""

    functions: list[str]
    rows: bytes
    """Rows of ``chimbuko.core.calls.pathtable.PATH_TIME``; functions are indices of the list."""
    threads: bytes = b""
    """Rows of ``THREAD_PATH_TIME``: of functions that some threads take longer in than others."""


class RecordBatch(msgspec.Struct, frozen=True, array_like=True):
    """A piece of one stream's spool on its way to the store; sending it twice is harmless."""

    stream: str
    sequence: int
    records: PackedRecords
    steps: list[StepCount]
    metadata: list[Metadata]
    health: StreamHealth
    """Running totals of the stream."""
    dropped: dict[str, int]
    """Number of anomalies of each function that are not recorded since the stream began: they were more than
    are kept of one function, or the spool had no room.
    """
    counter_statistics: list[CounterStatistics] = []
    """Statistics of counters that have changed; the last ones of a counter replace those before."""
    paths: PathTimes | None = None
    """Runtimes by call path, at the end of the stream."""

    @classmethod
    def of_others(cls, name: str, program: int, rank: int, node: str, records: PackedRecords) -> RecordBatch:
        """Make a batch of records of a rank's calls that were not made by its stream's own process, but by
        ``name``.
        """
        health = StreamHealth(program, rank, node, READING, 0, 0, 0, 0, 0, 0, {})
        return cls(name, 0, records, [], [], health, {})

    @property
    def is_from_stream(self) -> bool:
        """Whether the stream's own process made the batch. Of the ``health`` in a batch of an agent, which
        reports overdue calls, only program, rank and node mean anything.
        """
        return self.stream == f"{self.health.program}:{self.health.rank}"


class RankStatistics(msgspec.Struct, frozen=True, array_like=True):
    """Anomalies per step of one rank, over all its analysed steps."""

    program: int
    rank: int
    steps: int
    total: int
    mean: float
    stddev: float
    minimum: int
    maximum: int
    skewness: float
    kurtosis: float
    severity_us: float
    last_step: int


class FunctionStatistics(msgspec.Struct, frozen=True, array_like=True):
    """Statistics of one function over all ranks; runtimes are those of calls that count for the detector."""

    program: int
    name: str
    calls: int
    """Number of all calls, also of first and doubtful ones and of those that have not ended. Of calls whose
    paths are too many to be kept it is that of those that count for the detector.
    """
    anomalies: int
    severity_us: float
    exclusive_mean_us: float
    exclusive_stddev_us: float
    exclusive_minimum_us: float
    exclusive_maximum_us: float
    inclusive_mean_us: float
    inclusive_maximum_us: float
    drift: float = 1.0
    """Factor by which its calls take longer now than at first; slow changes add up to it."""
    flagged_steps: int = 0
    """Number of steps of a rank in which any of its calls was abnormal, over all ranks; 0, though there are
    anomalies, where it is not known.
    """
    flagged_squares: float = 0.0
    """Sum, over these steps, of the squares of the number of abnormal calls; the following two of the cubes,
    and of the fourth powers. Steps without any add nothing, so with the number of all steps all moments
    follow; exact up to 2 ** 53.
    """
    flagged_cubes: float = 0.0
    flagged_fourths: float = 0.0
    fewest_flagged: int = 0
    """Fewest abnormal calls in one of these steps."""
    most_flagged: int = 0


class PathStatistics(msgspec.Struct, frozen=True, array_like=True):
    """Calls of one call path over all ranks of a program: runtimes of those that count for the detector, and
    the time that was spent in all of them.
    """

    program: int
    functions: list[str]
    """Functions of the path, outermost first; the calls themselves are of the last one."""
    calls: int
    exclusive_mean_us: float
    exclusive_stddev_us: float
    exclusive_minimum_us: float
    exclusive_maximum_us: float
    inclusive_mean_us: float
    inclusive_stddev_us: float
    inclusive_minimum_us: float
    inclusive_maximum_us: float
    begun: int = 0
    """Number of all calls, also of first and doubtful ones and of those that have not ended."""
    spent_us: float = 0.0
    """Exclusive time of all of them, of open ones until the last event of their thread. Both are 0 where an
    earlier release, or another program, has counted.
    """
    looked_us: float = 0.0
    """Time for which looks at their threads stand that found them innermost; 0 where there were none."""
    asleep_us: float = 0.0
    """Part of it for which these threads were asleep."""

    @property
    def all_calls(self) -> int:
        """Number of all calls, as far as they were counted."""
        return self.begun or self.calls

    @property
    def total_us(self) -> float:
        """Exclusive time of all calls, as far as they were counted."""
        return self.spent_us if self.begun else self.calls * self.exclusive_mean_us

    @property
    def slept_us(self) -> float | None:
        """Return how much of this time their threads slept; None where too few looks say so."""
        return slept_us(self.total_us, self.looked_us, self.asleep_us)


class FunctionModel(msgspec.Struct, frozen=True, array_like=True):
    """State of the detector about one function in one version of the global model."""

    version: int
    program: int
    name: str
    row: bytes
    """Row of the detector's table, float64, with the counted calls (``statistics.schema.stored_schema_of``).
    """


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """Changes for dashboards, sent with each tick. Statistics are absolute values, steps are new ones."""

    tick: int
    ranks: list[RankStatistics]
    steps: list[StepCount]
    functions: list[FunctionStatistics]
    health: list[StreamHealth]
    is_last: bool
    """Whether the run has ended."""
    telemetry: TelemetryChanges = TelemetryChanges()
    part: int = 0
    """Index of the part of the parameter server; each counts its own ticks."""


class RunStatistics(msgspec.Struct, frozen=True, array_like=True):
    """Changes for the store, and everything at the end. Statistics are absolute values."""

    programs: dict[int, str] = {}
    """Names of programs by number."""
    health: list[StreamHealth] = []
    functions: list[FunctionStatistics] = []
    paths: list[PathStatistics] = []
    """Statistics of call paths whose calls have grown by a tenth since they were last sent."""
    models: list[FunctionModel] = []
    """Models of functions that have learned much since they were last sent."""
    slow_ranks: list[SlowRank] = []
    """All slow ranks of this moment among those that this part of the parameter server compares."""
    part: int = 0
    """Index of the part of the parameter server."""


class RecallRequest(msgspec.Struct, frozen=True, array_like=True):
    """Request to the flight recorders of some streams for an interval."""

    id: str
    start_us: int
    end_us: int
    streams: list[str]
    """Keys of the streams, ``program:rank``."""


class RecallAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Answer of the flight recorder of one stream, with what it holds of the interval."""

    stream: str
    rank: int
    names: StreamNames
    since_us: int
    """Time to which the recorder reaches back; 0 if it holds all that there was."""
    steps: list[RecordedStep]
    is_left_out: bool
    """Whether the steps are left out, as the answers to the request were too large already."""


class WaitsRequest(msgspec.Struct, frozen=True, array_like=True):
    """Request to agents for calls in which ranks of theirs waited while a call of another rank lost time,
    and, where that is not on record, for the call of each rank that lost most time by itself.

    Agents answer with records, which go to the store as any others do.
    """

    program: int
    begin_us: int
    """Begin of the interval, on the clock that all ranks have in common."""
    end_us: int
    least_us: float
    """Minimum waiting time in µs; calls that waited less are not meant."""
    ranks: dict[int, int]
    """Ranks that are asked, each with the offset of its clock in µs."""
    least_own_us: float = 0.0
    """Minimum time in µs that a call lost by itself for others to have waited for it; 0 if the call is
    known.
    """
    incident: int = 0
    """Number of the incident that is asked about."""
    near: int = 0
    """Number of the first ranks that are asked because their numbers are near; the others are spread over
    all.
    """
