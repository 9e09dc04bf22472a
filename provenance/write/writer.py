"""Writes provenance into the store, in large transactions; writing the same again changes nothing."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, Engine, select, update

from chimbuko.causes.incidents.tracker import Changes
from chimbuko.causes.recurrence import Recurrence
from chimbuko.core.arrays import Rows
from chimbuko.core.calls.pathtable import OTHER_PATHS, PATH_TIME, THREAD_PATH_TIME
from chimbuko.core.calls.record import READING, SILENT, Silence, StreamHealth
from chimbuko.core.errors import StoreError
from chimbuko.core.kernels.paths import NONE
from chimbuko.monitor.samples.nodebatch import PackedBatch
from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding
from chimbuko.provenance.store.encode import call_rows, node_state_rows, store_records
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.numbering import RANK_PATH, THREAD_BIT, Numbering, PathNumbering, path_key
from chimbuko.provenance.store.statements import Upsert
from chimbuko.provenance.store.tables import (
    COUNTER_STATISTICS,
    DROPPED,
    FUNCTION_STATISTICS,
    FUNCTIONS,
    METADATA,
    MODELS,
    NODE_SAMPLES,
    NODE_STATES,
    PATH_STATISTICS,
    PROGRAMS,
    RANK_PATHS,
    RUNS,
    STREAM_HEALTH,
    TEXTS,
)
from chimbuko.provenance.store.urls import public_url
from chimbuko.provenance.write.callwriter import write_calls
from chimbuko.provenance.write.incidentwriter import (
    withdraw,
    write_changes,
    write_metric_findings,
    write_recurrences,
)
from chimbuko.provenance.write.stepwriter import StepWriter
from chimbuko.runtime.protocol.messages import (
    FunctionModel,
    FunctionStatistics,
    PathStatistics,
    PathTimes,
    RecordBatch,
    RunStatistics,
)
from chimbuko.runtime.runs.directory import RunInfo

GOES_ON = READING, SILENT
"""States of streams that may give more steps."""
_WRITE_RUNS = Upsert(RUNS, RunInfo.__struct_fields__, ("id",))
_WRITE_NODE_STATES = Upsert.of_all(NODE_STATES)
_WRITE_SAMPLES = Upsert.of_all(NODE_SAMPLES)
_WRITE_METADATA = Upsert.of_all(METADATA)
_WRITE_DROPPED = Upsert.of_all(DROPPED, "anomalies")
_WRITE_HEALTH = Upsert.of_all(STREAM_HEALTH)
_WRITE_STATISTICS = Upsert.of_all(FUNCTION_STATISTICS)
_WRITE_PATH_STATISTICS = Upsert.of_all(PATH_STATISTICS)
_WRITE_RANK_PATHS = Upsert.of_all(RANK_PATHS, "calls")
_WRITE_COUNTERS = Upsert.of_all(COUNTER_STATISTICS, "n")
_WRITE_MODELS = Upsert.of_all(MODELS)
_WRITE_PROGRAMS = Upsert.of_all(PROGRAMS)


class Writer:
    """Writer of what belongs to one run. Each method is one transaction: all of it is stored, or nothing.

    Methods raise ``StoreBusy`` where the same call may succeed later, ``StoreRefused`` where it holds
    a value that the database cannot store, and another ``StoreError`` where the store is unusable.

    Parameters
    ----------
    engine
        Store, from ``open_for_writing``.
    run_id
        Run that everything written belongs to; ``write_run`` comes first.
    """

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id
        self._stored: _StoredRun | None = None

    def write(self, batches: Sequence[RecordBatch]) -> None:
        """Write records, steps, metadata, health, counters, and counts of what was dropped.

        What was written before changes nothing, and is not counted again.
        """
        with self._transaction() as connection:
            run = self._run(connection)
            functions = run.functions.of(connection, _functions_in(batches))
            texts = run.texts.of(connection, _texts_in(batches))
            calls: list[tuple[Any, ...]] = []
            states: dict[tuple[int, ...], bytes] = {}
            for batch in (batch for batch in batches if batch.records.count):
                names, counters = batch.records.functions, batch.records.counter_names
                stored = store_records(
                    batch.records,
                    {number: functions[batch.health.program, name] for number, name in names.items()},
                    {number: texts[name,] for number, name in counters.items()},
                )
                paths = [(batch.health.program, path) for path in stored.paths]
                numbers = run.paths.of(connection, paths)
                calls += call_rows(run.number, batch.health, stored, [numbers[path] for path in paths])
                states |= node_state_rows(run.number, batch.health, stored)
            write_calls(connection, run.number, calls)
            run.steps.write(connection, (step for batch in batches for step in batch.steps))
            _WRITE_NODE_STATES.write(connection, [(*key, state) for key, state in states.items()])
            _write_rank_paths(connection, run, batches, functions)
            of_streams = [batch.health for batch in batches if batch.is_from_stream]
            health = _with_silences(connection, run.number, of_streams)
            _WRITE_HEALTH.write(connection, _health_rows(run.number, health))
            for upsert, rows in _other_rows(run.number, batches, texts):
                upsert.write(connection, rows)

    def write_statistics(self, statistics: RunStatistics) -> None:
        """Write the latest statistics over all agents, and the detector's models of functions."""
        with self._transaction() as connection:
            run = self._run(connection)
            rows = [(run.number, *program) for program in statistics.programs.items()]
            _WRITE_PROGRAMS.write(connection, rows)
            health = _with_silences(connection, run.number, statistics.health)
            _WRITE_HEALTH.write(connection, _health_rows(run.number, health))
            _write_functions(connection, run, statistics.functions)
            _write_paths(connection, run, statistics.paths)
            _write_models(connection, run, statistics.models)

    def write_samples(self, batches: Iterable[PackedBatch]) -> None:
        """Write samples of nodes."""
        with self._transaction() as connection:
            run = self._run(connection)
            rows = [(run.number, *msgspec.structs.astuple(one)) for one in batches]
            _WRITE_SAMPLES.write(connection, rows)

    def write_incidents(self, changes: Changes) -> None:
        """Write what has changed in the run's incidents."""
        with self._transaction() as connection:
            run = self._run(connection)
            write_changes(connection, run.number, changes, partial(run.functions.of, connection))

    def withdraw_incidents(self, known: Collection[int]) -> None:
        """Note that all incidents but these have no flagged call any longer."""
        with self._transaction() as connection:
            withdraw(connection, self._run(connection).number, known)

    def write_recurrences(self, found: Sequence[Recurrence]) -> list[RecurrenceSummary]:
        """Write all recurring findings of the run, and return them as lists show them."""
        with self._transaction() as connection:
            run = self._run(connection)
            return write_recurrences(connection, run.number, found, partial(run.functions.of, connection))

    def write_metric_findings(self, found: Sequence[Finding]) -> list[MetricFinding]:
        """Write the findings in published quantities that are not stored yet, and return them."""
        with self._transaction() as connection:
            return write_metric_findings(connection, self._run(connection).number, found)

    def write_run(self, info: RunInfo) -> None:
        """Write the description of the run, again when it has ended."""
        values = {
            **msgspec.structs.asdict(info),
            "store_url": public_url(info.store_url),
            "command": _json(info.command),
            "config": _json(info.config),
            "environment": _json(info.environment),
        }
        with self._transaction() as connection:
            _WRITE_RUNS.write(connection, [tuple(values[name] for name in _WRITE_RUNS.columns)])

    def write_folder(self, folder: Path) -> None:
        """Note the folder of the run: who has another one that names the run does not delete its rows."""
        with self._transaction() as connection:
            statement = update(RUNS).where(RUNS.c.id == self._run_id)
            connection.execute(statement.values(folder=str(folder.resolve())))

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with store_errors(self._engine), self._engine.begin() as connection:
                yield connection
        except BaseException:
            # Numbers given in a transaction that failed are not in the store.
            self._stored = None
            raise

    def _run(self, connection: Connection) -> _StoredRun:
        if self._stored is None:
            number = connection.execute(select(RUNS.c.number).where(RUNS.c.id == self._run_id)).scalar()
            if number is None:
                raise StoreError(f"{public_url(self._engine.url)}: holds no run {self._run_id!r} to add to")
            self._stored = _StoredRun(
                number,
                Numbering(FUNCTIONS, number),
                Numbering(TEXTS, number),
                PathNumbering(number),
                StepWriter(number),
            )
        return self._stored


class _StoredRun(msgspec.Struct, frozen=True):
    """Number of a run in the store, and what is known of its rows there."""

    number: int
    functions: Numbering
    """Numbers of functions by (program, name)."""
    texts: Numbering
    paths: PathNumbering
    steps: StepWriter


def _write_functions(
    connection: Connection, run: _StoredRun, statistics: Sequence[FunctionStatistics]
) -> None:
    numbers = run.functions.of(connection, ((row.program, row.name) for row in statistics))
    rows = [
        (run.number, numbers[row.program, row.name], *msgspec.structs.astuple(row)[2:]) for row in statistics
    ]
    _WRITE_STATISTICS.write(connection, rows)


def _write_paths(connection: Connection, run: _StoredRun, statistics: Sequence[PathStatistics]) -> None:
    wanted = {(row.program, name) for row in statistics for name in row.functions}
    functions = run.functions.of(connection, wanted)
    paths = [
        (row.program, path_key([functions[row.program, name] for name in row.functions]))
        for row in statistics
    ]
    numbers = run.paths.of(connection, paths)
    rows = [
        (run.number, numbers[path], *msgspec.structs.astuple(row)[2:])
        for path, row in zip(paths, statistics, strict=True)
    ]
    _WRITE_PATH_STATISTICS.write(connection, rows)


def _write_rank_paths(
    connection: Connection,
    run: _StoredRun,
    batches: Sequence[RecordBatch],
    functions: Mapping[tuple[int, str], int],
) -> None:
    """Write the time in calls by path where a stream has ended; ``functions`` are those of the batches."""
    for batch in batches:
        if batch.paths is None:
            continue
        program, rank = batch.health.program, batch.health.rank
        names = [*batch.paths.functions, OTHER_PATHS]
        times = np.frombuffer(batch.paths.rows, PATH_TIME)
        on_paths: list[list[int]] = []
        for parent, function in times[["parent", "function"]].tolist():
            above = [] if parent == NONE else on_paths[parent]
            # The function of the others is -1, which is the last name.
            on_paths.append([*above, functions[program, names[function]]])
        paths = [(program, path_key(on_path)) for on_path in on_paths]
        numbers = run.paths.of(connection, paths)
        rows = np.zeros(len(times), RANK_PATH)
        rows["path"] = [numbers[path] for path in paths]
        for name in ("calls", "exclusive_us"):
            rows[name] = times[name]
        packed = zlib.compress(rows[rows["calls"] > 0].tobytes() + _of_threads(batch.paths, rows), 9)
        _WRITE_RANK_PATHS.write(connection, [(run.number, program, rank, int(rows["calls"].sum()), packed)])


def _of_threads(paths: PathTimes, ranks: Rows) -> bytes:
    """Return ``RANK_PATH`` rows of the threads that take unequally long; ``ranks`` are those of all."""
    times = np.frombuffer(paths.threads, THREAD_PATH_TIME)
    rows = np.zeros(len(times), RANK_PATH)
    rows["path"] = ranks["path"][times["path"]]
    rows["calls"] = times["calls"] + ((1 + times["thread"].astype(np.int64)) << THREAD_BIT)
    rows["exclusive_us"] = times["exclusive_us"]
    return rows.tobytes()


def _write_models(connection: Connection, run: _StoredRun, models: Sequence[FunctionModel]) -> None:
    numbers = run.functions.of(connection, ((model.program, model.name) for model in models))
    rows = [
        (run.number, numbers[model.program, model.name], model.version, zlib.compress(model.row, 9))
        for model in models
    ]
    _WRITE_MODELS.write(connection, rows)


def _functions_in(batches: Sequence[RecordBatch]) -> Iterator[tuple[int, str]]:
    for batch in batches:
        for name in batch.records.functions.values():
            yield batch.health.program, name
        if batch.paths is not None:
            for name in (*batch.paths.functions, OTHER_PATHS):
                yield batch.health.program, name


def _texts_in(batches: Sequence[RecordBatch]) -> Iterator[tuple[str]]:
    for batch in batches:
        for name in batch.records.counter_names.values():
            yield (name,)
        for attribute in batch.metadata:
            yield (attribute.key,)
            yield (attribute.value,)
        for counter in batch.counter_statistics:
            yield (counter.name,)


def _other_rows(
    run: int, batches: Sequence[RecordBatch], texts: Mapping[tuple[str], int]
) -> Iterator[tuple[Upsert, list[tuple[Any, ...]]]]:
    """Yield what batches hold beside records, with how it is written."""
    yield (
        _WRITE_METADATA,
        [
            (run, item.program, item.rank, item.thread, texts[item.key,], texts[item.value,])
            for batch in batches
            for item in batch.metadata
        ],
    )
    yield (
        _WRITE_DROPPED,
        [(run, batch.stream, *dropped) for batch in batches for dropped in batch.dropped.items()],
    )
    yield (
        _WRITE_COUNTERS,
        [
            (run, batch.health.program, batch.health.rank, texts[name,], *moments)
            for batch in batches
            for name, *moments in map(msgspec.structs.astuple, batch.counter_statistics)
        ],
    )


def _with_silences(
    connection: Connection, run: int, health: Sequence[StreamHealth]
) -> Sequence[StreamHealth]:
    """Return the health of streams, in which those that were silent until they ended still say where they
    stood: no call of theirs ended since.
    """
    if all(one.silence is not None or one.state in GOES_ON for one in health):
        return health
    columns = STREAM_HEALTH.c
    known = select(columns.program, columns.rank, columns.calls, columns.silence).where(
        columns.run == run, columns.silence.is_not(None)
    )
    stood = {
        (row.program, row.rank, row.calls): msgspec.convert(row.silence, Silence)
        for row in connection.execute(known)
    }
    return [
        msgspec.structs.replace(one, silence=stood.get((one.program, one.rank, one.calls)))
        if one.silence is None and one.state not in GOES_ON and one.open_calls
        else one
        for one in health
    ]


def _health_rows(run: int, health: Iterable[StreamHealth]) -> list[tuple[Any, ...]]:
    latest = {(stream.program, stream.rank): stream for stream in health}
    rows = []
    for stream in latest.values():
        texts = {
            "losses": _json(stream.losses),
            "silence": None if stream.silence is None else _json(stream.silence),
            "source": None if stream.source is None else _json(stream.source),
        }
        rows.append((run, *(msgspec.structs.asdict(stream) | texts).values()))
    return rows


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
