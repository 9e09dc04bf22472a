"""Writes provenance into the store, in large transactions; writing the same again changes nothing."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
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
from chimbuko.core.calls.schema import INDEXED
from chimbuko.core.errors import StoreError
from chimbuko.core.kernels.paths import NONE
from chimbuko.monitor.sampling.nodebatch import PackedBatch
from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding
from chimbuko.provenance.store.encode import (
    CALL_COLUMNS,
    CALL_KEY,
    StoredRecords,
    call_rows,
    node_state_rows,
    store_records,
)
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.numbering import RANK_PATH, THREAD_BIT, Numbering, PathNumbering, path_key
from chimbuko.provenance.store.statements import Change, Turn, Upsert, insert, rows_of, take_turn
from chimbuko.provenance.store.tables import (
    CALLS,
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
from chimbuko.provenance.write.incidentwriter import (
    withdraw,
    write_changes,
    write_metric_findings,
    write_recurrences,
)
from chimbuko.provenance.write.rollups import CallChanges, Counted, add_of_ranks, add_over_ranks
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

Row = tuple[Any, ...]

_KEY = CALL_KEY[1:]
_AGE = ("revision", "is_open", "inclusive_us")
_SEARCHED = tuple(dict.fromkeys((*Counted._fields, "is_open", "is_gpu", *INDEXED)))
"""Columns that stand in an index or in totals."""
_OTHERS = tuple(name for name in CALL_COLUMNS if name not in (*CALL_KEY, *_SEARCHED))
_VERDICT = (
    *("is_anomaly", "is_relabelled", "score", "severity_us"),
    *("expected_us", "spread_us", "seen", "model_version"),
)
"""Columns of the verdict, which all revisions of a call that has ended share, unless it was judged again in
the store."""
_STORED = ("id", *_KEY, *_AGE, *_SEARCHED, *_VERDICT)


def _values(columns: Sequence[str], of: Sequence[str]) -> itemgetter[Row]:
    return itemgetter(*(columns.index(name) for name in of))


_key, _reported, _searched, _others, _counted = (
    _values(CALL_COLUMNS, names) for names in (_KEY, _AGE, _SEARCHED, _OTHERS, Counted._fields)
)
_stored_key, _stored_version, _stored_searched, _stored_counted, _stored_verdict = (
    _values(_STORED, names) for names in (_KEY, _AGE, _SEARCHED, Counted._fields, _VERDICT)
)
_VERDICT_AT = [CALL_COLUMNS.index(name) for name in _VERDICT]
# Most second revisions change nothing that is searched by: to leave seven indexes alone halves their cost.
_CHANGE_OTHERS = Change(CALLS, _OTHERS, ("id",))
_CHANGE_ALL = Change(CALLS, (*_SEARCHED, *_OTHERS), ("id",))


def write_calls(connection: Connection, run: int, rows: Iterable[Row]) -> CallChanges:
    """Write rows of ``CALL_COLUMNS``, and return what is to be counted.

    Of several revisions of a call the highest stays, in whatever order they come; of several reports of an
    open call, which are all revision 0, the one with the longest time. The verdict on a call that has ended
    stays: its last revision may come from a node that was cut off, after the run's final judgement.
    """
    newest: dict[Row, Row] = {}
    for row in rows:
        before = newest.get(key := _key(row))
        if before is None or _age(*_reported(row)) > _age(*_reported(before)):
            newest[key] = row
    kept = rows_of(connection, CALLS, _STORED, run, _KEY, newest, are_to_change=True)
    stored = {_stored_key(row): row for row in kept}
    new = [newest[key] for key in sorted(newest.keys() - stored.keys())]
    changes = [
        (before, _judged_as(before, newest[key]))
        for key, before in stored.items()
        if _age(*_reported(newest[key])) > _age(*_stored_version(before))
    ]
    insert(connection, CALLS, CALL_COLUMNS, new)
    _change(connection, changes)
    counted = [(Counted(*_stored_counted(before)), Counted(*_counted(after))) for before, after in changes]
    return CallChanges(
        [Counted(*_counted(row)) for row in new],
        [(before, after) for before, after in counted if before != after],
    )


def _age(revision: int, is_open: bool, inclusive_us: int) -> tuple[int, bool, int]:
    return revision, not is_open, inclusive_us


def _judged_as(stored: Row, row: Row) -> Row:
    """Return the row with the stored verdict, where that is of a call that had ended."""
    _, is_open, _ = _stored_version(stored)
    if is_open:
        return row
    judged = list(row)
    for at, value in zip(_VERDICT_AT, _stored_verdict(stored), strict=True):
        judged[at] = value
    return tuple(judged)


def _change(connection: Connection, changes: Sequence[tuple[Row, Row]]) -> None:
    others, all_of_it = [], []
    for before, after in changes:
        if _searched(after) == _stored_searched(before):
            others.append((*_others(after), before[0]))
        else:
            all_of_it.append((*_searched(after), *_others(after), before[0]))
    _CHANGE_OTHERS.write(connection, others)
    _CHANGE_ALL.write(connection, all_of_it)


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
MODEL_LEVEL = 3
"""Level at which models are compressed: half the time of the usual one, for a tenth more bytes."""


class Writer:
    """Writer of what belongs to one run. Each method is one transaction: all of it is stored, or nothing, but
    names, which are numbered before.

    Methods raise ``StoreBusy`` where the same call may succeed later, ``StoreRefused`` where it holds
    a value that the database cannot store, and another ``StoreError`` where the store is unusable.

    Parameters
    ----------
    engine
        Store, from ``open_for_writing``.
    run_id
        Run that everything written belongs to; ``write_run`` comes first.
    number
        Number of this one of several writers, counted from 1; 0 for the only one. Two of the same number wait
        for each other, as where one was killed in mid-transaction, and another follows.
    """

    def __init__(self, engine: Engine, run_id: str, number: int = 0) -> None:
        self._engine = engine
        self._run_id = run_id
        self._turn = Turn.WRITERS + number
        self._stored: _StoredRun | None = None

    def write(self, batches: Sequence[RecordBatch]) -> None:
        """Write records, steps, metadata, health, counters, and counts of what was dropped.

        What was written before changes nothing, and is not counted again.
        """
        run = self._run()
        # Names and rows come before the transaction: meanwhile others can write.
        functions = run.functions.of(_functions_in(batches))
        texts = run.texts.of(_texts_in(batches))
        calls, states = _call_rows(run, batches, functions, texts)
        rank_paths = _rank_path_rows(run, batches, functions)
        with self._transaction() as connection:
            take_turn(connection, run.number, self._turn)
            new_calls = write_calls(connection, run.number, calls)
            add_of_ranks(connection, run.number, new_calls)
            new_steps = run.steps.write(connection, (step for batch in batches for step in batch.steps))
            _WRITE_NODE_STATES.write(connection, [(*key, state) for key, state in states.items()])
            _WRITE_RANK_PATHS.write(connection, rank_paths)
            of_streams = [batch.health for batch in batches if batch.is_from_stream]
            health = _with_silences(connection, run.number, of_streams)
            _WRITE_HEALTH.write(connection, _health_rows(run.number, health))
            for upsert, rows in _other_rows(run.number, batches, texts):
                upsert.write(connection, rows)
            # Last, as all writers wait for each other here.
            take_turn(connection, run.number, Turn.SUMS)
            add_over_ranks(connection, run.number, new_calls)
            run.steps.add_over_ranks(connection, new_steps)

    def write_statistics(self, statistics: RunStatistics) -> None:
        """Write the latest statistics over all agents, and the detector's models of functions."""
        run = self._run()
        written = (
            (_WRITE_STATISTICS, _function_rows(run, statistics.functions)),
            (_WRITE_PATH_STATISTICS, _path_rows(run, statistics.paths)),
            (_WRITE_MODELS, _model_rows(run, statistics.models)),
        )
        with self._transaction() as connection:
            rows = [(run.number, *program) for program in statistics.programs.items()]
            _WRITE_PROGRAMS.write(connection, rows)
            health = _with_silences(connection, run.number, statistics.health)
            _WRITE_HEALTH.write(connection, _health_rows(run.number, health))
            for upsert, of_names in written:
                upsert.write(connection, of_names)

    def write_samples(self, batches: Iterable[PackedBatch]) -> None:
        """Write samples of nodes."""
        run = self._run()
        with self._transaction() as connection:
            rows = [(run.number, *msgspec.structs.astuple(one)) for one in batches]
            _WRITE_SAMPLES.write(connection, rows)

    def write_incidents(self, changes: Changes) -> None:
        """Write what has changed in the run's incidents."""
        run = self._run()
        functions = run.functions.of((one.program, one.function) for one in changes.incidents if one.function)
        with self._transaction() as connection:
            write_changes(connection, run.number, changes, functions)

    def withdraw_incidents(self, known: Collection[int]) -> None:
        """Note that all incidents but these have no flagged call any longer."""
        run = self._run()
        with self._transaction() as connection:
            withdraw(connection, run.number, known)

    def write_recurrences(self, found: Sequence[Recurrence]) -> list[RecurrenceSummary]:
        """Write all recurring findings of the run, and return them as lists show them."""
        run = self._run()
        functions = run.functions.of((one.program, one.function) for one in found if one.function)
        with self._transaction() as connection:
            return write_recurrences(connection, run.number, found, functions)

    def write_metric_findings(self, found: Sequence[Finding]) -> list[MetricFinding]:
        """Write the findings in published quantities that are not stored yet, and return them."""
        run = self._run()
        with self._transaction() as connection:
            return write_metric_findings(connection, run.number, found)

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
            # What is known of the store may not be there.
            self._stored = None
            raise

    def _run(self) -> _StoredRun:
        if self._stored is None:
            with self._transaction() as connection:
                number = connection.execute(select(RUNS.c.number).where(RUNS.c.id == self._run_id)).scalar()
                if number is None:
                    where = public_url(self._engine.url)
                    raise StoreError(f"{where}: holds no run {self._run_id!r} to add to")
            self._stored = _StoredRun(
                number,
                Numbering(FUNCTIONS, number, self._transaction),
                Numbering(TEXTS, number, self._transaction),
                PathNumbering(number, self._transaction),
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


def _call_rows(
    run: _StoredRun,
    batches: Sequence[RecordBatch],
    functions: Mapping[tuple[int, str], int],
    texts: Mapping[tuple[str], int],
) -> tuple[list[tuple[Any, ...]], dict[tuple[int, ...], bytes]]:
    """Return rows of the table of calls, and the state of the node by run, program, rank and step."""
    calls: list[tuple[Any, ...]] = []
    states: dict[tuple[int, ...], bytes] = {}
    encoded: list[tuple[StreamHealth, StoredRecords, list[tuple[int, bytes]]]] = []
    for batch in (batch for batch in batches if batch.records.count):
        program, names, counters = batch.health.program, batch.records.functions, batch.records.counter_names
        stored = store_records(
            batch.records,
            {number: functions[program, name] for number, name in names.items()},
            {number: texts[name,] for number, name in counters.items()},
        )
        encoded.append((batch.health, stored, [(program, path) for path in stored.paths]))
    numbers = run.paths.of(path for _, _, paths in encoded for path in paths)
    for health, stored, paths in encoded:
        calls += call_rows(run.number, health, stored, [numbers[path] for path in paths])
        states |= node_state_rows(run.number, health, stored)
    return calls, states


def _function_rows(run: _StoredRun, statistics: Sequence[FunctionStatistics]) -> list[tuple[Any, ...]]:
    numbers = run.functions.of((row.program, row.name) for row in statistics)
    return [
        (run.number, numbers[row.program, row.name], *msgspec.structs.astuple(row)[2:]) for row in statistics
    ]


def _path_rows(run: _StoredRun, statistics: Sequence[PathStatistics]) -> list[tuple[Any, ...]]:
    functions = run.functions.of((row.program, name) for row in statistics for name in row.functions)
    paths = [
        (row.program, path_key([functions[row.program, name] for name in row.functions]))
        for row in statistics
    ]
    numbers = run.paths.of(paths)
    return [
        (run.number, numbers[path], *msgspec.structs.astuple(row)[2:])
        for path, row in zip(paths, statistics, strict=True)
    ]


def _rank_path_rows(
    run: _StoredRun, batches: Sequence[RecordBatch], functions: Mapping[tuple[int, str], int]
) -> list[tuple[Any, ...]]:
    """Return the time in calls by path where a stream has ended; ``functions`` are those of the batches."""
    written = []
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
        numbers = run.paths.of(paths)
        rows = np.zeros(len(times), RANK_PATH)
        rows["path"] = [numbers[path] for path in paths]
        for name in ("calls", "exclusive_us"):
            rows[name] = times[name]
        packed = zlib.compress(rows[rows["calls"] > 0].tobytes() + _of_threads(batch.paths, rows), 9)
        written.append((run.number, program, rank, int(rows["calls"].sum()), packed))
    return written


def _of_threads(paths: PathTimes, ranks: Rows) -> bytes:
    """Return ``RANK_PATH`` rows of the threads that take unequally long; ``ranks`` are those of all."""
    times = np.frombuffer(paths.threads, THREAD_PATH_TIME)
    rows = np.zeros(len(times), RANK_PATH)
    rows["path"] = ranks["path"][times["path"]]
    rows["calls"] = times["calls"] + ((1 + times["thread"].astype(np.int64)) << THREAD_BIT)
    rows["exclusive_us"] = times["exclusive_us"]
    return rows.tobytes()


def _model_rows(run: _StoredRun, models: Sequence[FunctionModel]) -> list[tuple[Any, ...]]:
    numbers = run.functions.of((model.program, model.name) for model in models)
    return [
        (run.number, numbers[model.program, model.name], model.version, zlib.compress(model.row, MODEL_LEVEL))
        for model in models
    ]


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
    # In the same order by all who write it, so that nobody waits for who waits for him.
    for _, stream in sorted(latest.items()):
        texts = {
            "losses": _json(stream.losses),
            "silence": None if stream.silence is None else _json(stream.silence),
            "source": None if stream.source is None else _json(stream.source),
        }
        rows.append((run, *(msgspec.structs.asdict(stream) | texts).values()))
    return rows


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
