"""Writes a run as tables of Apache Parquet, one file each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chimbuko.causes.incident import Waited
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.causes.wording import Bound
from chimbuko.core.calls.record import CallRecord, CounterValue, Message, StackFrame, StepCount, WindowCall
from chimbuko.core.calls.schema import Label
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.provenance.export.source import ExportSource
from chimbuko.provenance.incidents.incidentlist import IncidentSummary, RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding
from chimbuko.provenance.query.filters import CallSummary
from chimbuko.runtime.protocol.messages import FunctionStatistics, PathStatistics

ROW_GROUP = 1 << 16
"""Number of rows that a table keeps in memory, and writes at once."""

_TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
    Label: pa.string(),
    RecurrenceKind: pa.string(),
    Problem: pa.string(),
    Bound: pa.string(),
    int | None: pa.int64(),
    list[str]: pa.list_(pa.string()),
    list[int]: pa.list_(pa.int64()),
    tuple[int, ...]: pa.list_(pa.int64()),
}
_CALL = {"recorded_id": str}
"""Column with the id of the recorded call that a row is about, or whose window it is in."""
_ONCE = {"is_first": bool}
"""Column that says whether a row is the first one about what it describes: windows overlap."""


def _fields(kind: type[msgspec.Struct]) -> dict[str, type]:
    return get_type_hints(kind)


TABLES = {
    "calls": {
        name: kind for name, kind in _fields(CallSummary).items() if name in CallRecord.__struct_fields__
    },
    "call_stacks": _CALL | {"is_launch": bool, "position": int} | _fields(StackFrame) | _ONCE,
    "window_calls": _CALL | {"position": int} | _fields(WindowCall) | _ONCE,
    "messages": _CALL | _fields(Message) | _ONCE,
    "counters": _CALL | {"source": str} | _fields(CounterValue) | _ONCE,
    "step_counts": _fields(StepCount),
    "function_statistics": _fields(FunctionStatistics),
    "path_statistics": _fields(PathStatistics),
    "incidents": _fields(IncidentSummary),
    "incident_waits": {"incident_id": str} | _fields(Waited),
    "recurring": {"id": str, "sentence": str} | _fields(Recurrence),
    "metric_findings": {"id": str, "sentence": str} | _fields(Finding),
}
"""Columns of each table, with their types."""


def write_parquet(source: ExportSource, folder: Path) -> None:
    """Write ``calls``, and ``call_stacks``, ``window_calls``, ``messages`` and ``counters`` of these, with a
    row for each that a record reports; and ``incidents`` that they belong to, with their ``incident_waits``.
    ``step_counts``, ``function_statistics``, ``path_statistics``, ``recurring`` and ``metric_findings`` are
    of the whole run.

    Columns have the names, types and units of the records' fields. Written in groups of rows.
    """
    with ExitStack() as files:
        tables = {name: files.enter_context(_Table(folder, name)) for name in TABLES}
        for _, calls in groupby(source.records(), key=lambda call: (call.program, call.rank)):
            _write_rank(tables, calls)
        for program, rank in sorted(source.provenance.steps.firsts()):
            for count in source.provenance.steps.counts([(program, rank)]):
                tables["step_counts"].append(msgspec.structs.astuple(count))
        for function in source.provenance.function_statistics():
            tables["function_statistics"].append(msgspec.structs.astuple(function))
        for path in source.provenance.path_statistics():
            tables["path_statistics"].append(msgspec.structs.astuple(path))
        for one in source.incidents():
            tables["incidents"].append(msgspec.structs.astuple(one.summary))
            for waited in one.incident.waited:
                tables["incident_waits"].append((one.summary.id, *msgspec.structs.astuple(waited)))
        for recurring in source.recurrences():
            tables["recurring"].append(_described(recurring, recurring.recurrence))
        for wrong in source.metric_findings():
            tables["metric_findings"].append(_described(wrong, wrong.finding))


class _Table:
    """One table on its way into its file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._schema = pa.schema([(column, _TYPES[kind]) for column, kind in TABLES[name].items()])
        self._writer = pq.ParquetWriter(folder / f"{name}.parquet", self._schema, compression="zstd")
        self._rows: list[tuple[Any, ...]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        self._writer.close()

    def append(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) == ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(self._schema)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, self._schema.types, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=ROW_GROUP)
        self._rows.clear()


def _described(one: RecurrenceSummary | MetricFinding, found: msgspec.Struct) -> tuple[Any, ...]:
    return (one.id, one.sentence, *msgspec.structs.astuple(found))


def _write_rank(tables: dict[str, _Table], calls: Iterable[CallRecord]) -> None:
    seen: dict[str, set[Any]] = {name: set() for name in TABLES}

    def is_first(table: str, what: Any) -> bool:
        is_new = what not in seen[table]
        seen[table].add(what)
        return is_new

    for call in calls:
        tables["calls"].append(tuple(getattr(call, name) for name in TABLES["calls"]))
        for is_launch, stack in ((False, call.call_stack), (True, call.launch_stack)):
            for position, frame in enumerate(stack):
                row = (call.id, is_launch, position, *msgspec.structs.astuple(frame))
                tables["call_stacks"].append((*row, is_first("call_stacks", frame.id)))
        for position, neighbour in enumerate(call.window):
            row = (call.id, position, *msgspec.structs.astuple(neighbour))
            tables["window_calls"].append((*row, is_first("window_calls", neighbour.id)))
        for message in call.messages:
            row = (call.id, *msgspec.structs.astuple(message))
            tables["messages"].append((*row, is_first("messages", message)))
        for source, value in _values(call):
            row = (call.id, source, *msgspec.structs.astuple(value))
            tables["counters"].append((*row, is_first("counters", value)))


def _values(call: CallRecord) -> Iterator[tuple[str, CounterValue]]:
    """Yield the counter values of a call, each with what it is of."""
    for source, values in (
        ("window", call.counters),
        ("metric", call.metrics),
        ("node", call.node_state),
    ):
        for value in values:
            yield source, value
