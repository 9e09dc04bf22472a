"""Answers about the provenance of a run; command line, HTTP and dashboard ask here."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Self

import msgspec
import numpy as np
from sqlalchemy import Engine, and_, case, func, select

from chimbuko.core.arrays import Rows
from chimbuko.core.calls.record import CLEARLY, CounterStatistics, Metadata, StreamHealth, slept_us
from chimbuko.core.config import LEAST_CALLS
from chimbuko.core.errors import ConfigError
from chimbuko.core.unpacking import unpacked
from chimbuko.provenance.query.calls import Calls
from chimbuko.provenance.query.rows import AnySelect
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.provenance.query.steps import Steps
from chimbuko.provenance.store.engine import open_for_reading
from chimbuko.provenance.store.numbering import RANK_PATH, THREAD_BIT
from chimbuko.provenance.store.tables import (
    COUNTER_STATISTICS,
    DROPPED,
    FUNCTION_STATISTICS,
    FUNCTIONS,
    METADATA,
    MODELS,
    PATH_STATISTICS,
    PATHS,
    PROGRAMS,
    PRUNINGS,
    RANK_PATHS,
    STREAM_HEALTH,
)
from chimbuko.runtime.protocol.messages import FunctionModel, FunctionStatistics, PathStatistics
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo


class Models:
    """Models of functions that were kept of a run."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    def at(self, program: int, function: str, version: int) -> FunctionModel | None:
        """Return what the detector knew of a function in a version of the global model.

        This is the newest that was kept up to then: one is kept each time that much was learned of a
        function.
        """
        model = MODELS.c
        statement = (
            select(model.version, model.model)
            .where(
                model.run == self._reader.run,
                model.function == self._reader.function_number(program, function),
                model.version <= version,
            )
            .order_by(model.version.desc())
            .limit(1)
        )
        rows = self._reader.rows(statement)
        if not rows:
            return None
        return FunctionModel(rows[0].version, program, function, unpacked(rows[0].model))

    def versions(self, program: int, function: str) -> list[FunctionModel]:
        """Return all models of one function that were kept, the oldest first."""
        return self.versions_of([(program, function)]).get((program, function), [])

    def versions_of(
        self, functions: Collection[tuple[int, str]]
    ) -> dict[tuple[int, str], list[FunctionModel]]:
        """Return all models of functions, given by program and name, that were kept, the oldest first."""
        model, function = MODELS.c, FUNCTIONS.c
        statement = (
            select(model.version, function.program, function.name, model.model)
            .join_from(MODELS, FUNCTIONS, and_(function.run == model.run, function.number == model.function))
            .where(model.run == self._reader.run, function.name.in_(sorted({name for _, name in functions})))
            .order_by(model.version)
        )
        found: dict[tuple[int, str], list[FunctionModel]] = {key: [] for key in functions}
        for version, program, name, packed in self._reader.rows(statement):
            if (of_function := found.get((program, name))) is not None:
                of_function.append(FunctionModel(version, program, name, unpacked(packed)))
        return found

    def newest(self, at_once: int = 1000) -> Iterator[FunctionModel]:
        """Yield the newest model of each function, by program and name."""
        model, function = MODELS.c, FUNCTIONS.c
        newest = (
            select(model.function, func.max(model.version).label("version"))
            .where(model.run == self._reader.run)
            .group_by(model.function)
            .subquery()
        )
        statement = (
            select(model.version, function.program, function.name, model.model)
            .join_from(
                MODELS, newest, and_(newest.c.function == model.function, newest.c.version == model.version)
            )
            .join(FUNCTIONS, and_(function.run == model.run, function.number == model.function))
            .where(model.run == self._reader.run)
            .order_by(function.program, function.name)
        )
        return self._each(statement, at_once)

    def all(self, at_once: int = 1000) -> Iterator[FunctionModel]:
        """Yield all models that were kept, by program, name and version."""
        model, function = MODELS.c, FUNCTIONS.c
        statement = (
            select(model.version, function.program, function.name, model.model)
            .join_from(MODELS, FUNCTIONS, and_(function.run == model.run, function.number == model.function))
            .where(model.run == self._reader.run)
            .order_by(function.program, function.name, model.version)
        )
        return self._each(statement, at_once)

    def _each(self, statement: AnySelect, at_once: int) -> Iterator[FunctionModel]:
        with self._reader.connected() as connection:
            for rows in connection.execute(statement).partitions(at_once):
                for version, program, name, packed in rows:
                    yield FunctionModel(version, program, name, unpacked(packed))


class Dropped(msgspec.Struct, frozen=True, array_like=True):
    """Anomalies of a stream that are not recorded: too many of their function, or no room in its spool."""

    stream: str
    function: str
    anomalies: int


class Pruning(msgspec.Struct, frozen=True):
    """Numbers of calls of a function that one ``chimbuko runs prune`` removed."""

    program: int
    function: str
    pruned_us: int
    """Time of the pruning."""
    rule: str
    """Rule of the pruning, in words."""
    anomalies: int
    normal_calls: int
    severity_us: float
    """Severity of the anomalies together."""


class FunctionTime(msgspec.Struct, frozen=True):
    """Time in all calls of one function, also in first and open ones."""

    calls: int
    exclusive_us: float
    counted: int
    """Number of the calls that count for the detector."""
    looked_us: float = 0.0
    asleep_us: float = 0.0
    """Part of the looked-at time in which their threads slept, as in ``PathStatistics``."""

    @property
    def slept_us(self) -> float | None:
        """Return how much of the exclusive time their threads slept; None where too few looks say so."""
        return slept_us(self.exclusive_us, self.looked_us, self.asleep_us)


class RankPath(msgspec.Struct, frozen=True):
    """Calls of one call path on one rank: all of them, also first and open ones."""

    functions: list[str]
    """Functions of the path, outermost first."""
    calls: int
    exclusive_us: float
    """Exclusive time of all these calls together."""


def _rank_paths(packed: bytes) -> tuple[Rows, Rows]:
    """Return the ``RANK_PATH`` rows of a rank, and those of single threads."""
    rows = np.frombuffer(unpacked(packed), RANK_PATH)
    is_of_thread = rows["calls"] >> THREAD_BIT > 0
    return rows[~is_of_thread], rows[is_of_thread]


def _add(times: dict[int, FunctionTime], number: int, calls: int, exclusive_us: float) -> None:
    before = times.get(number, FunctionTime(0, 0.0, 0))
    times[number] = FunctionTime(before.calls + calls, before.exclusive_us + exclusive_us, 0)


def shortest_of_slowest(run: int, metric: str = "exclusive") -> AnySelect:
    """Return a statement for the number of each function, and the shortest runtime on the path on which that
    is longest, of paths with enough calls.
    """
    of_path = and_(PATHS.c.run == PATH_STATISTICS.c.run, PATHS.c.number == PATH_STATISTICS.c.path)
    return (
        select(PATHS.c.function, func.max(PATH_STATISTICS.c[f"{metric}_minimum_us"]))
        .join_from(PATH_STATISTICS, PATHS, of_path)
        .where(PATH_STATISTICS.c.run == run, PATH_STATISTICS.c.calls >= LEAST_CALLS)
        .group_by(PATHS.c.function)
    )


class Provenance:
    """Provenance of one run; each question is answered from what is committed when it is asked.

    ``calls``, ``steps`` and ``models`` answer questions about these; ``reader`` reads rows for modules
    elsewhere.

    Parameters
    ----------
    engine
        Store, from ``open_for_reading``.
    run_id
        Id of the run; by default the newest in the store.

    Raises
    ------
    StoreError
        The store holds no run. All methods raise it where the store cannot be read.
    """

    def __init__(self, engine: Engine, run_id: str | None = None) -> None:
        self.reader = RunReader(engine, run_id)
        self.run_id = self.reader.run_id
        self.steps = Steps(self.reader)
        self.calls = Calls(self.reader, self.steps)
        self.models = Models(self.reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self.reader.close()

    def run(self) -> RunInfo:
        """Return the description of the run, as last written.

        Raises
        ------
        ConfigError
            The store does not hold this run.
        """
        return self.reader.info()

    def programs(self) -> dict[int, str]:
        """Return the name of each program by its number."""
        statement = select(PROGRAMS.c.program, PROGRAMS.c.name).where(PROGRAMS.c.run == self.reader.run)
        return {row.program: row.name for row in self.reader.rows(statement.order_by(PROGRAMS.c.program))}

    def function_numbers(self) -> dict[tuple[int, str], int]:
        """Return the number of each function in the run by (program, name)."""
        columns = FUNCTIONS.c
        statement = select(columns.program, columns.name, columns.number).where(
            columns.run == self.reader.run
        )
        rows = self.reader.rows(statement.order_by(columns.number))
        return {(program, name): number for program, name, number in rows}

    def text_numbers(self) -> dict[str, int]:
        """Return the number of each text that is numbered in the run: names of counters, and metadata."""
        self.reader.names.texts.refresh()
        return {text: number for number, text in self.reader.names.texts.items()}

    def path_statistics(self) -> list[PathStatistics]:
        """Return statistics of each call path over all ranks, as last reported by the parameter server."""
        columns = PATH_STATISTICS.c
        numbers = [columns[name] for name in PathStatistics.__struct_fields__[2:]]
        rows = self.reader.rows(
            select(columns.path, *numbers).where(columns.run == self.reader.run).order_by(columns.path)
        )
        programs, paths, functions = (
            self.reader.names.programs_of_functions(),
            self.reader.names.paths,
            self.reader.names.functions,
        )
        on_paths = [(paths.functions(path), of_path) for path, *of_path in rows]
        return [
            PathStatistics(programs[on_path[-1]], [functions[number] for number in on_path], *of_path)
            for on_path, of_path in on_paths
        ]

    def judged_by_path_to_us(self) -> dict[tuple[int, str], float]:
        """Return up to which expected runtime calls of functions are judged by their own call path, as calls
        on another one are clearly longer, by program and name.
        """
        config = self.run().config
        if config.detector != "robust":
            return {}
        statement = shortest_of_slowest(self.reader.run, config.metric)
        shortest_us: dict[int, float] = dict(self.reader.rows(statement))
        return {
            key: shortest_us[number] / CLEARLY
            for key, number in self.function_numbers().items()
            if number in shortest_us
        }

    def function_times(self) -> dict[tuple[int, str], FunctionTime]:
        """Return the time in all calls of each function over all ranks, by program and name."""
        # Added up by the store: a run has many more paths than functions, and each question asks anew.
        path, columns = PATHS.c, PATH_STATISTICS.c
        has_all = columns.begun != 0
        sums = (
            case((has_all, columns.begun), else_=columns.calls),
            case((has_all, columns.spent_us), else_=columns.calls * columns.exclusive_mean_us),
            *(columns.calls, columns.looked_us, columns.asleep_us),
        )
        statement = (
            select(path.program, path.function, *map(func.sum, sums))
            .join_from(PATH_STATISTICS, PATHS, and_(path.run == columns.run, path.number == columns.path))
            .where(columns.run == self.reader.run)
            .group_by(path.program, path.function)
            .order_by(func.min(path.number))
        )
        rows = self.reader.rows(statement)
        functions = self.reader.names.functions
        return {
            # PostgreSQL's sums of integers are decimals.
            (program, functions[number]): FunctionTime(int(calls), time_us, int(counted), *looked_us)
            for program, number, calls, time_us, counted, *looked_us in rows
        }

    def rank_paths(self, program: int, rank: int) -> list[RankPath]:
        """Return the call paths of a rank; none before its stream has ended."""
        columns = RANK_PATHS.c
        of_rank = columns.run == self.reader.run, columns.program == program, columns.rank == rank
        paths, functions = self.reader.names.paths, self.reader.names.functions
        return [
            RankPath([functions[number] for number in paths.functions(path)], calls, exclusive_us)
            for (packed,) in self.reader.rows(select(columns.paths).where(*of_rank))
            for path, calls, exclusive_us in _rank_paths(packed)[0].tolist()
        ]

    def times_of_ranks(self) -> dict[tuple[int, str], dict[int, FunctionTime]]:
        """Return the time in all calls of each function, by program and name, on each rank whose stream has
        ended.
        """
        times: dict[tuple[int, str], dict[int, FunctionTime]] = {}
        for program, rank, rows, _ in self._rank_paths():
            for function, calls, exclusive_us in self._by_function(rows):
                _add(times.setdefault((program, function), {}), rank, calls, exclusive_us)
        return times

    def times_of_threads(self) -> dict[tuple[int, str], dict[int, dict[int, FunctionTime]]]:
        """Return the time in calls of each function, by program and name, by rank and thread, where threads
        of a rank took unequally long; other functions of such ranks are ``OTHER_PATHS``.
        """
        times: dict[tuple[int, str], dict[int, dict[int, FunctionTime]]] = {}
        for program, rank, _, rows in self._rank_paths():
            threads = ((rows["calls"] >> THREAD_BIT) - 1).tolist()
            rows["calls"] &= (1 << THREAD_BIT) - 1
            named = self._by_function(rows)
            for thread, (function, calls, exclusive_us) in zip(threads, named, strict=True):
                on_threads = times.setdefault((program, function), {}).setdefault(rank, {})
                _add(on_threads, thread, calls, exclusive_us)
        return times

    def _rank_paths(self, program: int | None = None) -> Iterator[tuple[int, int, Rows, Rows]]:
        """Yield program and rank of each stream that has ended, of one program or of all, and its
        ``RANK_PATH`` rows and those of its threads.
        """
        columns = RANK_PATHS.c
        statement = select(columns.program, columns.rank, columns.paths).where(columns.run == self.reader.run)
        if program is not None:
            statement = statement.where(columns.program == program)
        for of_program, rank, packed in self.reader.rows(statement):
            yield of_program, rank, *_rank_paths(packed)

    def _by_function(self, rows: Rows) -> Iterator[tuple[str, int, float]]:
        """Yield the innermost function, the calls and the exclusive time of each ``RANK_PATH`` row."""
        paths, functions = self.reader.names.paths, self.reader.names.functions
        last = {path: functions[paths.functions(path)[-1]] for path in set(rows["path"].tolist())}
        for path, calls, exclusive_us in rows.tolist():
            yield last[path], calls, exclusive_us

    def times_by_rank(self, program: int, function: str) -> dict[int, FunctionTime]:
        """Return the time in all calls of one function on each rank whose stream has ended, by rank in order;
        a rank that never called it has no calls.
        """
        number = self.function_numbers().get((program, function))
        paths = [] if number is None else self.reader.names.paths.ending_in(number)
        times = {}
        for _, rank, rows, _ in self._rank_paths(program):
            own = rows[np.isin(rows["path"], paths)]
            times[rank] = FunctionTime(int(own["calls"].sum()), float(own["exclusive_us"].sum()), 0)
        return dict(sorted(times.items()))

    def function_statistics(self) -> list[FunctionStatistics]:
        """Return statistics of each function over all ranks, as last reported by the parameter server."""
        function = (FUNCTIONS.c.program, FUNCTIONS.c.name)
        numbers = [
            FUNCTION_STATISTICS.c[name] for name in FunctionStatistics.__struct_fields__[len(function) :]
        ]
        of_function = and_(
            FUNCTIONS.c.run == FUNCTION_STATISTICS.c.run,
            FUNCTIONS.c.number == FUNCTION_STATISTICS.c.function,
        )
        statement = select(*function, *numbers).join_from(FUNCTION_STATISTICS, FUNCTIONS, of_function)
        rows = self.reader.rows(statement.where(FUNCTIONS.c.run == self.reader.run).order_by(*function))
        return [FunctionStatistics(*row) for row in rows]

    def health(self) -> list[StreamHealth]:
        """Return the latest running totals of each stream."""
        return self.reader.all(StreamHealth, STREAM_HEALTH)

    def metadata(self, program: int | None = None, rank: int | None = None, key: str = "") -> list[Metadata]:
        """Return metadata of all streams, or of one program or rank.

        Where a key is given, only what begins with it.
        """
        columns, texts = METADATA.c, self.reader.names.texts
        wanted = ((columns.program, program), (columns.rank, rank))
        conditions = [column == value for column, value in wanted if value is not None]
        if key:
            texts.refresh()
            keys = [number for number, text in texts.items() if text.startswith(key)]
            conditions.append(columns.key.in_(keys))
        statement = select(columns.program, columns.rank, columns.thread, columns.key, columns.value)
        rows = self.reader.rows(statement.where(columns.run == self.reader.run, *conditions))
        return sorted(
            (
                Metadata(program, rank, thread, texts[key], texts[value])
                for program, rank, thread, key, value in rows
            ),
            key=lambda item: (item.program, item.rank, item.thread, item.key),
        )

    def counter_statistics(self) -> list[tuple[int, int, CounterStatistics]]:
        """Return program, rank and running totals of each counter of each rank."""
        statement = select(*COUNTER_STATISTICS.columns).where(COUNTER_STATISTICS.c.run == self.reader.run)
        rows = self.reader.rows(statement.order_by(*COUNTER_STATISTICS.primary_key))
        return [
            (program, rank, CounterStatistics(self.reader.names.texts[counter], *moments))
            for _, program, rank, counter, *moments in rows
        ]

    def dropped(self) -> list[Dropped]:
        """Return the anomalies that were found but not kept: there were too many, or a spool was full."""
        return self.reader.all(Dropped, DROPPED)

    def prunings(self) -> list[Pruning]:
        """Return what was removed of the run, the latest pruning first, and of each most time lost first."""
        names = (PRUNINGS.c[name] for name in Pruning.__struct_fields__[2:])
        of_function = and_(FUNCTIONS.c.run == PRUNINGS.c.run, FUNCTIONS.c.number == PRUNINGS.c.function)
        statement = select(FUNCTIONS.c.program, FUNCTIONS.c.name, *names).where(
            PRUNINGS.c.run == self.reader.run
        )
        order = PRUNINGS.c.number.desc(), PRUNINGS.c.severity_us.desc(), PRUNINGS.c.function
        rows = self.reader.rows(statement.join_from(PRUNINGS, FUNCTIONS, of_function).order_by(*order))
        return [Pruning(*row) for row in rows]


def open_run(run: RunDirectory) -> Provenance:
    """Open the provenance of the run in a folder, whether it goes on or has ended.

    Raises
    ------
    ChimbukoError
        The folder or its store cannot be read.
    """
    info = run.read_info()
    return Provenance(open_for_reading(run.used_store_url(info)), info.id)


SETTLED_S = 2.0
"""Least age of a store's files by which its state is known: two changes within a tick of the clock by which
file systems note them look like one."""


def settled_state(run: RunDirectory) -> tuple[tuple[int, ...], ...] | None:
    """Return the state of the store in the folder of a run that has ended; any change makes it another one.

    It is None while the run goes on, just after a change, and for a store elsewhere.
    """
    try:
        info = run.read_info()
        if info.state == "running" or run.used_store_url(info) != run.store_url:
            return None
        found = run.store_path.stat()
    except (ConfigError, OSError):
        return None
    stats = [found]
    # Readers make an empty log, too.
    with suppress(FileNotFoundError):
        log = run.store_path.with_name(f"{run.store_path.name}-wal").stat()
        stats += [log] if log.st_size else []
    if max(one.st_mtime for one in stats) > time.time() - SETTLED_S:
        return None
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in stats)
