"""Records as arrays: how a stream's process makes them, and how they travel to the store.

A record costs its maker less than a microsecond this way and tens of them as objects. Functions and counters
are the stream's own ids; the names that a batch mentions travel beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Rows, distinct
from chimbuko.core.calls.record import (
    RECORD_VERSION,
    CallRecord,
    Collective,
    CounterValue,
    Message,
    StackFrame,
    StreamHealth,
    WindowCall,
    call_id,
)
from chimbuko.core.calls.schema import FIELDS, IN_ARRAYS, Label

NO_CALL = -1
"""Step and row that stand for no call."""

UNKNOWN_THREAD = -1
"""Thread of a launch that is not known, or where there is no launch."""

LISTS = ("frames", "members", "messages", "counters", "metrics", "node_state", "launch_frames")
"""Parts of which a record has any number of rows; a head has the number under the same name."""


def _head() -> np.dtype[np.void]:
    """Return the dtype of scalar fields and numbers of rows, large ones first, so that there is no
    padding.
    """
    # Kernels compare flags with numbers.
    fields = [(name, np.dtype(field.dtype.replace("?", "u1"))) for name, field in IN_ARRAYS.items()]
    fields += [(name, np.dtype(np.int32)) for name in LISTS]
    return np.dtype(sorted(fields, key=lambda field: -field[1].itemsize), align=True)


HEAD = _head()
"""Scalar fields that are a record's own (``calls.schema``), and its number of rows of each kind below.

``exit_us`` is 0 while the call is open; ``launch_step`` and ``launch_row`` are ``NO_CALL`` where nothing
launched it, ``launch_thread`` is ``UNKNOWN_THREAD`` where that is not known.
"""

MEMBER = np.dtype(
    [
        ("entry_us", np.uint64),
        ("exit_us", np.uint64),  # 0: open, or its EXIT was lost
        ("step", np.int32),
        ("row", np.int32),
        ("parent_step", np.int32),
        ("parent_row", np.int32),
        ("function", np.int32),
        ("depth", np.int32),
        ("is_anomaly", np.uint8),
    ],
    align=True,
)
"""A call of a stack or of a window."""

MESSAGE = np.dtype(
    [
        ("time_us", np.uint64),
        ("size_bytes", np.uint64),
        ("partner", np.uint64),
        ("tag", np.uint64),
        ("communicator", np.uint32),  # 0 where it is not known
        ("number", np.uint32),  # on its channel or communicator, from 1; 0 if it is not known
        ("step", np.int32),  # of the call it belongs to
        ("row", np.int32),
        ("kind", np.uint8),  # RECEIVED, SENT or COLLECTIVE
    ],
    align=True,
)
"""A message, or a collective operation that was entered: its ``partner`` is its root, or the rank itself."""
RECEIVED, SENT, COLLECTIVE = 0, 1, 2

COUNTER = np.dtype(
    [
        ("time_us", np.uint64),
        ("value", np.uint64),
        ("counter", np.int32),
        ("step", np.int32),  # of the call it belongs to; NO_CALL for the node's state
        ("row", np.int32),
    ],
    align=True,
)


class PackedRecords(msgspec.Struct, frozen=True, array_like=True):
    """Any number of records of one stream; the rows of each kind stand in the order of the heads."""

    heads: bytes = b""
    frames: bytes = b""
    """``MEMBER`` rows of call stacks, the call itself first, outermost last."""
    members: bytes = b""
    """``MEMBER`` rows of windows, in order of entry; the call itself is among them."""
    messages: bytes = b""
    counters: bytes = b""
    metrics: bytes = b""
    """``COUNTER`` rows: increase of each metric of ``TAU_METRICS`` in the call."""
    node_state: bytes = b""
    """``COUNTER`` rows: last value of each watched counter."""
    launch_frames: bytes = b""
    """``MEMBER`` rows: call stack of the call that launched a GPU kernel."""
    functions: dict[int, str] = {}
    counter_names: dict[int, str] = {}

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.heads) // HEAD.itemsize

    def head_rows(self) -> np.recarray[Any, Any]:
        """Return the heads as an array, HEAD[count]."""
        return np.frombuffer(self.heads, HEAD).view(np.recarray)

    def rows(self, part: str) -> Rows:
        """Return the rows of one of ``PARTS``, of all records."""
        return np.frombuffer(getattr(self, part), PARTS[part])

    def only(self, wanted: npt.NDArray[np.bool_]) -> PackedRecords:
        """Return the records that ``wanted``, bool[count], marks, with the names that they mention."""
        heads = self.head_rows()
        parts = {part: self.rows(part)[np.repeat(wanted, heads[part])] for part in PARTS}
        kept = heads[wanted]
        calls = (kept["function"], *(parts[part]["function"] for part in _CALL_PARTS))
        counters = (parts[part]["counter"] for part in _COUNTER_PARTS)
        return PackedRecords(
            heads=kept.tobytes(),
            functions=_named(self.functions, calls),
            counter_names=_named(self.counter_names, counters),
            **{part: rows.tobytes() for part, rows in parts.items()},
        )


PARTS = {
    "frames": MEMBER,
    "members": MEMBER,
    "messages": MESSAGE,
    "counters": COUNTER,
    "metrics": COUNTER,
    "node_state": COUNTER,
    "launch_frames": MEMBER,
}
"""Dtype of each part that has several rows per record. A head has their number under the same name."""
_CALL_PARTS = tuple(part for part, dtype in PARTS.items() if dtype is MEMBER)
_COUNTER_PARTS = tuple(part for part, dtype in PARTS.items() if dtype is COUNTER)


def joined(parts: Sequence[PackedRecords]) -> PackedRecords:
    """Join records of one stream, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return PackedRecords(
        heads=b"".join(part.heads for part in parts),
        functions={number: name for part in parts for number, name in part.functions.items()},
        counter_names={number: name for part in parts for number, name in part.counter_names.items()},
        **{name: b"".join(getattr(part, name) for part in parts) for name in PARTS},
    )


def pack(records: list[CallRecord]) -> PackedRecords:
    """Return records of one stream as arrays; functions and counters are numbered in order of appearance.

    Program, rank, node and detector are not part of the arrays.
    """
    packer = _Packer()
    for record in records:
        packer.add(record)
    return packer.packed()


def unpack(records: PackedRecords, health: StreamHealth, detector: str) -> list[CallRecord]:
    """Return records as values; program, rank and node are those of the stream's ``health``."""
    unpacker = _Unpacker(records, health, detector)
    return [unpacker.record(head) for head in records.head_rows().tolist()]


class _Packer:
    """Collector of the rows of records."""

    def __init__(self) -> None:
        self._heads: list[tuple[int | float, ...]] = []
        self._parts: dict[str, list[tuple[int, ...]]] = {part: [] for part in PARTS}
        self._functions: dict[str, int] = {}
        self._counter_names: dict[str, int] = {}

    def add(self, record: CallRecord) -> None:
        """Add one record."""
        begin_step, begin_row = _place(record.id)
        launch_step, launch_row = _place(record.launch_id)
        parts = {
            "frames": [self._frame(frame) for frame in record.call_stack],
            "members": [self._member(call) for call in record.window],
            "messages": [*map(_message, record.messages), *map(_collective, record.collectives)],
            "counters": [self._counter(value) for value in record.counters],
            "metrics": [self._counter(value) for value in record.metrics],
            "node_state": [self._counter(value) for value in record.node_state],
            "launch_frames": [self._frame(frame) for frame in record.launch_stack],
        }
        fields = {
            **{name: getattr(record, name) for name in HEAD.names or () if hasattr(record, name)},
            **{part: len(rows) for part, rows in parts.items()},
            "begin_step": begin_step,
            "begin_row": begin_row,
            "function": self._function(record.function),
            "launch_step": launch_step,
            "launch_row": launch_row,
            "is_anomaly": record.label is Label.ANOMALY,
        }
        self._heads.append(tuple(fields[name] for name in HEAD.names or ()))
        for part, rows in parts.items():
            self._parts[part] += rows

    def packed(self) -> PackedRecords:
        """Return all records that were added."""
        return PackedRecords(
            heads=np.array(self._heads, HEAD).tobytes(),
            functions={number: name for name, number in self._functions.items()},
            counter_names={number: name for name, number in self._counter_names.items()},
            **{part: np.array(rows, PARTS[part]).tobytes() for part, rows in self._parts.items()},
        )

    def _function(self, name: str) -> int:
        return self._functions.setdefault(name, len(self._functions))

    def _frame(self, frame: StackFrame) -> tuple[int, ...]:
        function = self._function(frame.function)
        times = frame.entry_us, frame.exit_us
        return (*times, *_place(frame.id), NO_CALL, NO_CALL, function, 0, frame.is_anomaly)

    def _member(self, call: WindowCall) -> tuple[int, ...]:
        places = *_place(call.id), *_place(call.parent_id)
        function = self._function(call.function)
        return (call.entry_us, call.exit_us, *places, function, call.depth, call.is_anomaly)

    def _counter(self, value: CounterValue) -> tuple[int, ...]:
        number = self._counter_names.setdefault(value.counter, len(self._counter_names))
        return (value.time_us, value.value, number, *_place(value.call_id))


class _Unpacker:
    """Converter of rows to values, record by record."""

    def __init__(self, records: PackedRecords, health: StreamHealth, detector: str) -> None:
        self._records = records
        self._health = health
        self._detector = detector
        self._left = {part: iter(records.rows(part).tolist()) for part in PARTS}

    def record(self, values: tuple[Any, ...]) -> CallRecord:
        """Return the next record, from the values of its head."""
        head = dict(zip(HEAD.names or (), values, strict=True))
        parts = {part: list(itertools.islice(self._left[part], head[part])) for part in PARTS}
        return CallRecord(
            **{name: head[name] for name in _SAME},
            version=RECORD_VERSION,
            id=self._id(head["begin_step"], head["begin_row"]),
            is_final=bool(head["is_final"]),
            label=Label.ANOMALY if head["is_anomaly"] else Label.NORMAL,
            program=self._health.program,
            rank=self._health.rank,
            node=self._health.node,
            function=self._records.functions[head["function"]],
            detector=self._detector,
            incident_id="",
            is_gpu=bool(head["is_gpu"]),
            launch_id=self._id(head["launch_step"], head["launch_row"]),
            call_stack=[self._frame(row) for row in parts["frames"]],
            window=[self._member(row) for row in parts["members"]],
            messages=[self._message(row) for row in parts["messages"] if row[-1] != COLLECTIVE],
            counters=[self._counter(row) for row in parts["counters"]],
            metrics=[self._counter(row) for row in parts["metrics"]],
            node_state=[self._counter(row) for row in parts["node_state"]],
            launch_stack=[self._frame(row) for row in parts["launch_frames"]],
            collectives=[self._collective(row) for row in parts["messages"] if row[-1] == COLLECTIVE],
        )

    def _id(self, step: int, row: int) -> str:
        return "" if step == NO_CALL else call_id(self._health.program, self._health.rank, step, row)

    def _frame(self, row: tuple[int, ...]) -> StackFrame:
        entry_us, exit_us, step, place, _, _, function, _, is_anomaly = row
        name = self._records.functions[function]
        return StackFrame(self._id(step, place), name, entry_us, exit_us, bool(is_anomaly))

    def _member(self, row: tuple[int, ...]) -> WindowCall:
        entry_us, exit_us, step, place, parent_step, parent_row, function, depth, is_anomaly = row
        return WindowCall(
            self._id(step, place),
            self._records.functions[function],
            entry_us,
            exit_us,
            self._id(parent_step, parent_row),
            depth,
            bool(is_anomaly),
        )

    def _message(self, row: tuple[int, ...]) -> Message:
        time_us, size_bytes, partner, tag, communicator, number, step, place, kind = row
        own = self._health.rank
        name, source, destination = ("SEND", own, partner) if kind == SENT else ("RECV", partner, own)
        call = self._id(step, place)
        return Message(name, source, destination, tag, size_bytes, time_us, call, communicator, number)

    def _collective(self, row: tuple[int, ...]) -> Collective:
        time_us, size_bytes, root, _, communicator, number, step, place, _ = row
        return Collective(communicator, number, root, size_bytes, time_us, self._id(step, place))

    def _counter(self, row: tuple[int, ...]) -> CounterValue:
        time_us, value, number, step, place = row
        return CounterValue(self._records.counter_names[number], value, time_us, self._id(step, place))


_SAME = [
    name for name, field in FIELDS.items() if name in IN_ARRAYS and field.dtype != "?" and name != "function"
]
"""Numeric fields that heads and records have in common unchanged."""


def _named(names: dict[int, str], numbers: Iterable[npt.NDArray[np.int32]]) -> dict[int, str]:
    """Return the names that are mentioned."""
    return {number: names[number] for number in distinct(np.concatenate([*numbers])).tolist()}


def _place(identity: str) -> tuple[int, int]:
    """Return step and row of a call's id."""
    if not identity:
        return NO_CALL, NO_CALL
    _, _, step, row = identity.split(":")
    return int(step), int(row)


def _message(message: Message) -> tuple[int, ...]:
    is_send = message.kind == "SEND"
    partner = message.destination if is_send else message.source
    place = _place(message.call_id)
    on = message.communicator, message.number
    return (
        message.time_us,
        message.size_bytes,
        partner,
        message.tag,
        *on,
        *place,
        SENT if is_send else RECEIVED,
    )


def _collective(one: Collective) -> tuple[int, ...]:
    on = one.communicator, one.number
    return (one.time_us, one.size_bytes, one.root, 0, *on, *_place(one.call_id), COLLECTIVE)
