"""Records that the C++ Chimbuko wrote, of its versions 1 and 2, read as ours.

Version 1 has ``func_stats`` of total runtimes in place of ``algo_params``, and no score, severity or name of
the node. The verdict is worked out of the statistics where it is missing: of 6,624 real records all abnormal
calls then lie 6σ or more from the mean, and all normal ones less.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from chimbuko.core.calls.record import (
    RECORD_VERSION,
    CallRecord,
    CounterValue,
    Message,
    Metadata,
    StackFrame,
    WindowCall,
    call_id,
    severity_us,
)
from chimbuko.core.calls.recordarrays import UNKNOWN_THREAD
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.importing.cppmodels import Learned, learned_of

Time = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Number = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Object = dict[str, Any]

WATCHED_PREFIX = "monitoring: "
"""Prefix that marks a counter of the node; the C++ Chimbuko's are named without it."""
_EVENT_ID = re.compile(r"(\d{1,10}):(\d{1,10}):(\d{1,10})", re.ASCII)
_NO_CALL = ("root", "")
_LONGEST = 1 << 64


class ForeignFrame(msgspec.Struct, frozen=True):
    """Call of a stack."""

    event_id: str
    func: str
    entry: Time
    exit: Time
    """Time at which the call ended; 0 while it is open."""
    is_anomaly: bool = False


class ForeignNeighbour(ForeignFrame, frozen=True, kw_only=True):
    """Call of a window."""

    parent_event_id: str


class ForeignMessage(msgspec.Struct, frozen=True):
    """Message of a window."""

    type: Literal["SEND", "RECV"]
    src: Number
    tar: Number
    bytes: int
    tag: int
    timestamp: Time
    execdata_key: str

    def __post_init__(self) -> None:
        _check_width("bytes", self.bytes)
        _check_width("tag", self.tag)


class ForeignCounter(msgspec.Struct, frozen=True):
    """Counter value that belongs to the call."""

    counter_name: str
    counter_value: int
    ts: Time

    def __post_init__(self) -> None:
        _check_width("counter_value", self.counter_value)


class ForeignWindow(msgspec.Struct, frozen=True):
    """Window of calls and messages around the call on its thread."""

    exec_window: list[ForeignNeighbour] = []
    comm_window: list[ForeignMessage] = []


class ForeignLocation(msgspec.Struct, frozen=True):
    """Stream of a GPU; -1 stands for what is not known."""

    device: int = -1
    context: int = -1
    stream: int = -1


class ForeignLaunch(msgspec.Struct, frozen=True):
    """Call that launched another one on a GPU."""

    event_id: str
    tid: Number | None = None
    call_stack: list[ForeignFrame] = []


class ForeignField(msgspec.Struct, frozen=True):
    """Figure of a node's state."""

    field: str
    value: Annotated[float, Meta(ge=0, lt=float(_LONGEST))] | Time


class ForeignNodeState(msgspec.Struct, frozen=True):
    """State of a node."""

    timestamp: Time
    data: list[ForeignField]


class ForeignRecord(msgspec.Struct, frozen=True):
    """Record of an abnormal call, or a normal one; a text in place of an object says why that is missing."""

    rid: Number
    tid: Number
    event_id: str
    func: str
    entry: Time
    exit: Time
    runtime_total: Time
    runtime_exclusive: int
    io_step: Number
    version: Literal[1, 2] = 1
    pid: Number = 0
    io_step_tstart: Time = 0
    io_step_tend: Time = 0
    outlier_score: float | None = None
    outlier_severity: float | None = None
    hostname: str = ""
    call_stack: list[ForeignFrame] = []
    counter_events: list[ForeignCounter] = []
    is_gpu_event: bool = False
    gpu_location: ForeignLocation | str | None = None
    gpu_parent: ForeignLaunch | str | None = None
    event_window: ForeignWindow = ForeignWindow()
    node_state: ForeignNodeState | None = None
    algo_params: Object | None = None
    func_stats: Object | None = None

    def __post_init__(self) -> None:
        if self.exit and self.exit < self.entry:
            raise ValueError(f"exit {self.exit} lies before entry {self.entry}")


class ForeignMetadata(msgspec.Struct, frozen=True):
    """Attribute of a stream; version 1 names no program."""

    descr: str
    rid: Number
    tid: Number
    value: str | int | float | bool | None = None
    pid: Number = 0


@dataclass(frozen=True)
class ForeignCall:
    """Content of one record of the C++ Chimbuko."""

    record: CallRecord
    """The same call as our record; its model's number and its detector's name are not filled in yet."""
    learned: Learned | None
    """Model that the detector had of the function."""
    metric: str | None
    """Runtime that was judged, ``exclusive`` or ``inclusive``; None if the record does not say."""
    gpu_attributes: list[Metadata]
    """Attributes that say where on a GPU the call ran, as TAU names it."""


def call_of(value: object, label: Label) -> ForeignCall:
    """Read a record of the C++ Chimbuko as ours.

    Raises
    ------
    ValueError, msgspec.ValidationError
        A field is missing, or holds what it cannot; the text says which.
    """
    theirs = msgspec.convert(value, ForeignRecord)
    params = theirs.algo_params if theirs.algo_params is not None else theirs.func_stats
    learned = None if params is None else learned_of(params)
    names = _Names(theirs.pid, theirs.rid)
    identity = names.call(theirs.event_id)
    if not identity:
        raise ValueError(f"event_id {theirs.event_id!r} names no call")
    call_stack = [names.frame(frame) for frame in theirs.call_stack]
    neighbours = theirs.event_window.exec_window
    messages = [names.message(message) for message in theirs.event_window.comm_window]
    launch = theirs.gpu_parent if isinstance(theirs.gpu_parent, ForeignLaunch) else None
    is_open = theirs.exit == 0
    score, lost_us, expected_us = _judgement(theirs, learned)
    record = CallRecord(
        version=RECORD_VERSION,
        id=identity,
        revision=0 if is_open else 1,
        is_final=True,
        label=label,
        program=theirs.pid,
        rank=theirs.rid,
        thread=theirs.tid,
        node=theirs.hostname,
        function=theirs.func,
        entry_us=theirs.entry,
        exit_us=theirs.exit,
        inclusive_us=theirs.runtime_total if is_open else theirs.exit - theirs.entry,
        # Children on other streams of a GPU may overlap each other.
        exclusive_us=max(theirs.runtime_exclusive, 0),
        step=theirs.io_step,
        step_start_us=theirs.io_step_tstart,
        step_end_us=theirs.io_step_tend,
        score=score,
        severity_us=lost_us,
        expected_us=expected_us,
        spread_us=learned.moments.stddev if learned else 0.0,
        seen=int(learned.moments.n) if learned else 0,
        detector=learned.detector if learned else "",
        incident_id="",
        depth=max(len(call_stack) - 1, 0),
        children=sum(call.parent_event_id == theirs.event_id for call in neighbours),
        messages_count=sum(message.call_id == identity for message in messages),
        call_stack=call_stack,
        window=names.window(neighbours, call_stack),
        messages=messages,
        counters=[
            CounterValue(counter.counter_name, counter.counter_value, counter.ts, identity)
            for counter in theirs.counter_events
        ],
        node_state=[] if theirs.node_state is None else _node_state(theirs.node_state),
        left_out=0,
        metrics=[],
        is_gpu=theirs.is_gpu_event,
        launch_id=names.call(launch.event_id) if launch else "",
        launch_stack=[names.frame(frame) for frame in launch.call_stack] if launch else [],
        model_version=0,
        launch_thread=UNKNOWN_THREAD if launch is None or launch.tid is None else launch.tid,
    )
    return ForeignCall(record, learned, _judged_metric(theirs, learned), _gpu_attributes(theirs))


def metadata_of(value: object) -> Metadata:
    """Read an attribute of the C++ Chimbuko as ours.

    Raises
    ------
    ValueError, msgspec.ValidationError
        A field is missing, or holds what it cannot; the text says which.
    """
    theirs = msgspec.convert(value, ForeignMetadata)
    text = "" if theirs.value is None else str(theirs.value)
    return Metadata(theirs.pid, theirs.rid, theirs.tid, theirs.descr, text)


@dataclass(frozen=True)
class _Names:
    """Reader of the ids of calls of one rank."""

    program: int
    rank: int

    def call(self, event_id: str) -> str:
        """Return the id of a call; empty for none."""
        if event_id in _NO_CALL:
            return ""
        match = _EVENT_ID.fullmatch(event_id)
        if match is None:
            raise ValueError(f"event id {event_id!r} is not of the form rank:step:index")
        rank, step, row = map(int, match.groups())
        if rank != self.rank:
            raise ValueError(f"event id {event_id!r} names another rank than rid, {self.rank}")
        if max(step, row) >= 1 << 31:
            raise ValueError(f"event id {event_id!r} does not fit into 32 bits")
        return call_id(self.program, rank, step, row)

    def frame(self, frame: ForeignFrame) -> StackFrame:
        return StackFrame(self.call(frame.event_id), frame.func, frame.entry, frame.exit, frame.is_anomaly)

    def message(self, message: ForeignMessage) -> Message:
        return Message(
            message.type,
            message.src,
            message.tar,
            message.tag,
            message.bytes,
            message.timestamp,
            self.call(message.execdata_key),
        )

    def window(self, calls: Sequence[ForeignNeighbour], stack: Sequence[StackFrame]) -> list[WindowCall]:
        """Return the neighbours, each with its depth."""
        depths = {frame.id: len(stack) - 1 - place for place, frame in enumerate(stack)}
        window = []
        for call in calls:
            identity, parent_id = self.call(call.event_id), self.call(call.parent_event_id)
            if not parent_id:
                depth = 0
            elif parent_id in depths:
                depth = depths[parent_id] + 1
            else:
                # A parent that had ended before the recorded call began: it lay in all of these.
                depth = 1 + sum(frame.entry_us < call.entry < (frame.exit_us or _LONGEST) for frame in stack)
            depths[identity] = depth
            window.append(
                WindowCall(identity, call.func, call.entry, call.exit, parent_id, depth, call.is_anomaly)
            )
        return window


def _judgement(theirs: ForeignRecord, learned: Learned | None) -> tuple[float, float, float]:
    """Return score, severity in µs and expected runtime in µs."""
    mean_us, stddev_us = (learned.moments.mean, learned.moments.stddev) if learned else (0.0, 0.0)
    runtime_us = theirs.runtime_total if theirs.version == 1 else theirs.runtime_exclusive
    score, lost_us = theirs.outlier_score, theirs.outlier_severity
    if score is None:
        score = abs(runtime_us - mean_us) / stddev_us if stddev_us > 0 else 0.0
    if lost_us is None:
        lost_us = float(severity_us(runtime_us, mean_us))
    return score, lost_us, mean_us


def _judged_metric(theirs: ForeignRecord, learned: Learned | None) -> str | None:
    """Return the runtime whose distance from the mean is the score."""
    if learned is None or learned.moments.stddev == 0 or theirs.runtime_total == theirs.runtime_exclusive:
        return None
    if theirs.outlier_score is None:
        return "inclusive" if theirs.version == 1 else None
    mean_us, stddev_us = learned.moments.mean, learned.moments.stddev
    runtimes = {"exclusive": theirs.runtime_exclusive, "inclusive": theirs.runtime_total}
    fitting = [
        metric
        for metric, runtime_us in runtimes.items()
        if math.isclose(abs(runtime_us - mean_us) / stddev_us, theirs.outlier_score, rel_tol=1e-3)
    ]
    return fitting[0] if len(fitting) == 1 and learned.detector == "sstd" else None


def _gpu_attributes(theirs: ForeignRecord) -> list[Metadata]:
    if not isinstance(theirs.gpu_location, ForeignLocation):
        return []
    place = theirs.gpu_location
    known = (("Device", place.device), ("Context", place.context), ("Stream", place.stream))
    return [
        Metadata(theirs.pid, theirs.rid, theirs.tid, f"CUDA {key}", str(number))
        for key, number in known
        if number >= 0
    ]


def _node_state(state: ForeignNodeState) -> list[CounterValue]:
    return [
        CounterValue(WATCHED_PREFIX + entry.field, round(entry.value), state.timestamp, "")
        for entry in state.data
    ]


def _check_width(name: str, value: int) -> None:
    if not 0 <= value < _LONGEST:
        raise ValueError(f"{name} {value} does not fit into 64 bits")
