"""Makes calls of their rows in the store, and of those of the stream, step and run that they are from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from sqlalchemy import ColumnElement, FromClause, Row, Select, and_, select

from chimbuko.core.calls.record import RECORD_VERSION, CallRecord, StackFrame, WindowCall
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.query.filters import CallSummary
from chimbuko.provenance.store.decode import CallDetails, Names, OwnCall, read_details, read_node_state
from chimbuko.provenance.store.tables import CALLS, NODE_STATES, STEPS, STREAM_HEALTH

Labelled = TypeVar("Labelled", StackFrame, WindowCall)
AnyRow: TypeAlias = Row[*tuple[Any, ...]]
AnySelect: TypeAlias = Select[*tuple[Any, ...]]

_SAME = tuple(
    name
    for name in CallSummary.__struct_fields__
    if name in CALLS.c and name not in ("id", "function", "incident_id")
)
"""Fields that stand in the table of calls as they are; the first columns of all rows that are read."""
_DETAILS = CallDetails.__struct_fields__
_OTHERS = (
    "begin_step",
    "begin_row",
    "launch_step",
    "launch_row",
    "function",
    "is_anomaly",
    "is_open",
    "incident_id",
)
_EVENT_ID = re.compile(r"(\d{1,10}):(\d{1,10}):(\d{1,10}):(-?\d{1,10})", re.ASCII)


def select_summaries(*more: ColumnElement[Any], found: FromClause | None = None) -> AnySelect:
    """Return a statement that reads calls for ``CallReader.summary``, and what else is wanted of them.

    Parameters
    ----------
    found
        Rows with the column ``id`` of the calls to read; None for all.
    """
    call, step, stream = CALLS.c, STEPS.c, STREAM_HEALTH.c
    of_stream = and_(stream.run == call.run, stream.program == call.program, stream.rank == call.rank)
    of_step = and_(
        step.run == call.run, step.program == call.program, step.rank == call.rank, step.step == call.step
    )
    columns = (*(call[name] for name in (*_SAME, *_OTHERS)), step.start_us, step.end_us, stream.node)
    # An outer join, as a step or stream comes in the same message as its calls, or later.
    calls = CALLS if found is None else found.join(CALLS, CALLS.c.id == found.c.id)
    joined = calls.outerjoin(STEPS, of_step).outerjoin(STREAM_HEALTH, of_stream)
    return select(*columns, *more).select_from(joined)


def select_records() -> AnySelect:
    """Return a statement that reads calls for ``CallReader.record``."""
    call, state = CALLS.c, NODE_STATES.c
    of_step = and_(
        state.run == call.run, state.program == call.program, state.rank == call.rank, state.step == call.step
    )
    return select_summaries(call.details, state.counters).outerjoin(NODE_STATES, of_step)


def is_call(event_id: str) -> ColumnElement[bool] | None:
    """Return the condition on the table of calls for the one with this id; None for what is no id."""
    match = _EVENT_ID.fullmatch(event_id)
    if match is None:
        return None
    place = (CALLS.c.program, CALLS.c.rank, CALLS.c.begin_step, CALLS.c.begin_row)
    return and_(*(column == int(part) for column, part in zip(place, match.groups(), strict=True)))


class CallReader(msgspec.Struct, frozen=True):
    """Reader that makes calls of rows."""

    names: Names
    detector: str
    """Detector of the run."""
    relabelled: Mapping[str, bool] = msgspec.field(default_factory=dict)
    """Whether calls are abnormal that got another label by the final judgement: what a record says of the
    calls around its own was noted before that."""

    def summary(self, row: AnyRow) -> CallSummary:
        """Return the summary of a call from a row of ``select_summaries``."""
        return CallSummary(**self._fields(row, _own_call(row)))

    def record(self, row: AnyRow) -> CallRecord:
        """Return the record of a call from a row of ``select_records``."""
        own = _own_call(row)
        details = self._corrected(read_details(row.details, own, self.names))
        fields = self._fields(row, own)
        del fields["path"]
        return CallRecord(
            **fields,
            **{name: getattr(details, name) for name in _DETAILS},
            node_state=[] if row.counters is None else read_node_state(row.counters, self.names),
        )

    def _fields(self, row: AnyRow, own: OwnCall) -> dict[str, Any]:
        return {
            **dict(zip(_SAME, row, strict=False)),
            "id": own.id_of(own.step, own.row),
            "version": RECORD_VERSION,
            "label": Label.ANOMALY if row.is_anomaly else Label.NORMAL,
            "node": row.node or "",
            "function": self.names.functions[own.function],
            "exit_us": 0 if row.is_open else row.entry_us + row.inclusive_us,
            "step_start_us": row.start_us or 0,
            "step_end_us": row.end_us or 0,
            "detector": self.detector,
            "incident_id": row.incident_id or "",
            "launch_id": own.id_of(row.launch_step, row.launch_row),
        }

    def _corrected(self, details: CallDetails) -> CallDetails:
        if not self.relabelled:
            return details
        return msgspec.structs.replace(
            details,
            call_stack=[self._labelled(frame) for frame in details.call_stack],
            window=[self._labelled(call) for call in details.window],
            launch_stack=[self._labelled(frame) for frame in details.launch_stack],
        )

    def _labelled(self, call: Labelled) -> Labelled:
        is_anomaly = self.relabelled.get(call.id, call.is_anomaly)
        return call if is_anomaly == call.is_anomaly else msgspec.structs.replace(call, is_anomaly=is_anomaly)


def _own_call(row: AnyRow) -> OwnCall:
    return OwnCall(
        row.program, row.rank, row.begin_step, row.begin_row, row.function, row.entry_us, row.depth
    )
