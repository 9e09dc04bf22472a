"""What can be asked of the provenance of a run; command line, HTTP and dashboard ask here."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Self, TypeVar

import msgspec
from sqlalchemy import (
    ColumnElement,
    Engine,
    Table,
    and_,
    case,
    false,
    func,
    literal,
    or_,
    select,
    tuple_,
    union_all,
)

from chimbuko.errors import ConfigError, StoreError
from chimbuko.messages import FunctionModel, FunctionStatistics, PathStatistics, RankStatistics
from chimbuko.provenance.calls import SORTS, CallFilter, CallPage, Cursor, Sort
from chimbuko.provenance.details import Names
from chimbuko.provenance.names import RunNames
from chimbuko.provenance.reading import (
    AnyRow,
    AnySelect,
    CallReader,
    is_call,
    select_records,
    select_summaries,
)
from chimbuko.provenance.search import Resolved, Search, of_ranks, one_of, searches
from chimbuko.provenance.stepsums import StepSum, summed
from chimbuko.provenance.stepwriter import LEVELS
from chimbuko.provenance.store import open_for_reading, public_url, store_errors
from chimbuko.provenance.tables import (
    ALL_RANKS,
    CALLS,
    COUNTER_STATISTICS,
    DROPPED,
    FUNCTION_STATISTICS,
    FUNCTIONS,
    METADATA,
    MODELS,
    NEVER_US,
    PATH_STATISTICS,
    PROGRAMS,
    PRUNINGS,
    RUNS,
    STEP_HISTOGRAMS,
    STEP_LEVELS,
    STEPS,
    STREAM_HEALTH,
)
from chimbuko.provenance.totals import (
    By,
    Total,
    counted_by,
    kept_count,
    kept_sums,
    made_sums,
    merged,
    named,
    time_width_us,
)
from chimbuko.records import CallRecord, CounterStatistics, Metadata, StepCount, StreamHealth
from chimbuko.rundir import RunDirectory, RunInfo

StructType = TypeVar("StructType", bound=msgspec.Struct)


class Dropped(msgspec.Struct, frozen=True, array_like=True):
    """Anomalies of a stream that are not recorded: too many of their function, or no room in its spool."""

    stream: str
    function: str
    anomalies: int


class Pruning(msgspec.Struct, frozen=True):
    """What was removed of a function by one ``chimbuko runs prune``."""

    program: int
    function: str
    pruned_us: int
    """When."""
    rule: str
    """By what."""
    anomalies: int
    normal_calls: int
    severity_us: float
    """Of the anomalies together."""


class Provenance:
    """The provenance of one run; each question is answered from what is committed when it is asked.

    Parameters
    ----------
    engine
        A store, from ``open_for_reading``.
    run_id
        The run; by default the newest in the store.

    Raises
    ------
    StoreError
        The store holds no run. All methods raise it where the store cannot be read.
    """

    def __init__(self, engine: Engine, run_id: str | None = None) -> None:
        self._engine = engine
        self.run_id = run_id if run_id is not None else self._newest_run()
        self._number: int | None = None
        self._names = RunNames(self._rows, lambda: self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self._engine.dispose()

    def run(self) -> RunInfo:
        """What the run was, as last written.

        Raises
        ------
        ConfigError
            The store does not hold this run.
        """
        names = RunInfo.__struct_fields__
        rows = self._rows(select(*(RUNS.c[name] for name in names)).where(RUNS.c.id == self.run_id))
        if not rows:
            raise ConfigError(f"{public_url(self._engine.url)}: holds no run {self.run_id!r}")
        return msgspec.convert(dict(zip(names, rows[0], strict=True)), RunInfo)

    def programs(self) -> dict[int, str]:
        """Program index to name."""
        statement = select(PROGRAMS.c.program, PROGRAMS.c.name).where(PROGRAMS.c.run == self._run)
        return {row.program: row.name for row in self._rows(statement.order_by(PROGRAMS.c.program))}

    def calls(
        self,
        wanted: CallFilter,
        sort: Sort = "severity_us",
        descending: bool = True,
        limit: int = 50,
        cursor: str | None = None,
    ) -> CallPage:
        """A page of calls.

        Calls that are stored while pages are turned appear if they sort behind the page last
        shown; none is shown twice.

        Raises
        ------
        ConfigError
            The order is unknown, the limit is below 1, or the cursor is not of a list in this order.
        """
        if sort not in SORTS:
            raise ConfigError(f"sort {sort!r}: not an order of calls; one of {', '.join(SORTS)}")
        if limit < 1:
            raise ConfigError(f"limit {limit}: a page holds at least 1 call")
        after = None if cursor is None else Cursor.decode(cursor, sort, descending)
        parts = self._searches(wanted)
        if not parts:
            return CallPage([], None)
        firsts = [
            part.first(sort, descending, limit + 1, after, part.best(sort, counts)).subquery()
            for part, counts in zip(parts, self._places_counted(parts), strict=True)
        ]
        found = union_all(*(select(first.c.id, first.c.sorted_by) for first in firsts)).subquery()
        statement = select_summaries(found.c.sorted_by, CALLS.c.id, found=found)
        order = [column.desc() if descending else column.asc() for column in (found.c.sorted_by, CALLS.c.id)]
        rows = self._rows(statement.order_by(*order).limit(limit + 1))
        shown = rows[:limit]
        more = len(rows) > limit
        following = Cursor(sort, descending, *shown[-1][-2:]).encode() if more else None
        reader = self._reader() if shown else None
        return CallPage([reader.summary(row) for row in shown] if reader else [], following)

    def count(self, wanted: CallFilter, most: int | None = None) -> int:
        """How many calls the filter matches.

        Parameters
        ----------
        most
            Stop there: to count a million one by one takes a second. Many are counted without, by sums that
            the writer keeps.
        """
        resolved = self._resolve(wanted)
        by = counted_by(wanted)
        if by is not None and not resolved.is_nothing:
            found = int(self._rows(kept_count(by, wanted, resolved))[0][0])
            return found if most is None else min(found, most)
        counted = 0
        for part in searches(wanted, resolved):
            matching = select(CALLS.c.id).where(part.all_conditions())
            if most is not None:
                matching = matching.limit(most - counted)
            counted += int(self._rows(select(func.count()).select_from(matching.subquery()))[0][0])
        return counted

    def totals(
        self,
        by: By,
        wanted: CallFilter | None = None,
        limit: int | None = None,
        width_us: int | None = None,
    ) -> list[Total]:
        """Sums over the abnormal calls that the filter matches, by what they have in common.

        Those that cost most come first; steps and intervals of time come in their order.

        Parameters
        ----------
        width_us
            Length of intervals of time, in whole seconds; by default so that there are 200 at most.

        Raises
        ------
        ConfigError
            The filter asks for normal calls.
        """
        wanted = wanted or CallFilter()
        if wanted.label != "anomaly":
            raise ConfigError("totals are of abnormal calls; leave the label out")
        times = self.time_range() or (0, 0)
        width_us = time_width_us(by, width_us, times[1] - times[0])
        resolved = self._resolve(wanted)
        kept = None if resolved.is_nothing else kept_sums(by, wanted, resolved, width_us)
        if kept is not None:
            rows = list(self._rows(kept))
        else:
            parts = searches(wanted, resolved)
            rows = [
                row
                for part, counts in zip(parts, self._places_counted(parts), strict=True)
                for row in self._rows(made_sums(by, part, part.narrowest(counts), width_us))
            ]
        return named(by, merged(by, rows), self._names, width_us)[:limit]

    def call(self, event_id: str) -> CallRecord:
        """Everything kept about one call.

        Raises
        ------
        ConfigError
            The run has no such call recorded.
        """
        is_this = is_call(event_id)
        rows = (
            [] if is_this is None else self._rows(select_records().where(CALLS.c.run == self._run, is_this))
        )
        if not rows:
            raise ConfigError(
                f"call {event_id!r}: not recorded in this run; 'chimbuko query' lists those that are"
            )
        return self._reader().record(rows[0])

    def records(self, wanted: CallFilter, at_once: int = 1000) -> Iterator[CallRecord]:
        """Everything kept about all the calls that the filter matches, in order of program, rank and step."""
        order = CALLS.c.program, CALLS.c.rank, CALLS.c.step, CALLS.c.id
        # Numbers first: PostgreSQL's client would hold all records, and a slow reader would hold up SQLite.
        with store_errors(self._engine), self._engine.connect() as connection:
            chosen = select(CALLS.c.id).where(self.condition(wanted)).order_by(*order)
            numbers = array("q", connection.scalars(chosen))
        for first in range(0, len(numbers), at_once):
            is_next = one_of(CALLS.c.id, numbers[first : first + at_once])
            rows = self._rows(select_records().where(is_next).order_by(*order))
            yield from map(self._reader().record, rows)

    def normal_like(self, record: CallRecord) -> CallRecord | None:
        """The recorded normal call to compare with: same function, same rank if possible, nearest in step."""
        is_this = is_call(record.id)
        assert is_this is not None
        other_rank = case((CALLS.c.rank == record.rank, 0), else_=1)
        rows = self._rows(
            select_records()
            .where(
                CALLS.c.run == self._run,
                CALLS.c.function == self._number_of(record.program, record.function),
                ~CALLS.c.is_anomaly,
                ~is_this,
            )
            .order_by(other_rank, func.abs(CALLS.c.step - record.step), CALLS.c.rank, CALLS.c.id)
            .limit(1)
        )
        return self._reader().record(rows[0]) if rows else None

    def model_of(self, program: int, function: str, version: int) -> FunctionModel | None:
        """What the detector knew of a function in a version of the global model.

        That is the newest that was kept up to then: one is kept each time that a function has learned much.
        """
        model = MODELS.c
        statement = (
            select(model.version, model.model)
            .where(
                model.run == self._run,
                model.function == self._number_of(program, function),
                model.version <= version,
            )
            .order_by(model.version.desc())
            .limit(1)
        )
        rows = self._rows(statement)
        if not rows:
            return None
        return FunctionModel(rows[0].version, program, function, zlib.decompress(rows[0].model))

    def last_models(self) -> list[FunctionModel]:
        """The newest model of each function, by program and name."""
        model, function = MODELS.c, FUNCTIONS.c
        newest = (
            select(model.function, func.max(model.version).label("version"))
            .where(model.run == self._run)
            .group_by(model.function)
            .subquery()
        )
        statement = (
            select(model.version, function.program, function.name, model.model)
            .join_from(
                MODELS, newest, and_(newest.c.function == model.function, newest.c.version == model.version)
            )
            .join(FUNCTIONS, and_(function.run == model.run, function.number == model.function))
            .where(model.run == self._run)
            .order_by(function.program, function.name)
        )
        return [
            FunctionModel(version, program, name, zlib.decompress(packed))
            for version, program, name, packed in self._rows(statement)
        ]

    def models(self, at_once: int = 1000) -> Iterator[FunctionModel]:
        """All models that were kept, by program, name and version."""
        model, function = MODELS.c, FUNCTIONS.c
        statement = (
            select(model.version, function.program, function.name, model.model)
            .join_from(MODELS, FUNCTIONS, and_(function.run == model.run, function.number == model.function))
            .where(model.run == self._run)
            .order_by(function.program, function.name, model.version)
        )
        with store_errors(self._engine), self._engine.connect() as connection:
            for rows in connection.execute(statement).partitions(at_once):
                for version, program, name, packed in rows:
                    yield FunctionModel(version, program, name, zlib.decompress(packed))

    def function_numbers(self) -> dict[tuple[int, str], int]:
        """(Program, name) to the number of each function in the run."""
        columns = FUNCTIONS.c
        statement = select(columns.program, columns.name, columns.number).where(columns.run == self._run)
        rows = self._rows(statement.order_by(columns.number))
        return {(program, name): number for program, name, number in rows}

    def text_numbers(self) -> dict[str, int]:
        """Text to number, of all that are numbered in the run: counters and metadata."""
        self._names.texts.refresh()
        return {text: number for number, text in self._names.texts.items()}

    def step_counts(
        self,
        ranks: Sequence[tuple[int, int]] | None = None,
        step_min: int | None = None,
        step_max: int | None = None,
    ) -> list[StepCount]:
        """What each analysed step counted, by program, rank and step.

        Parameters
        ----------
        ranks
            (program, rank) of those wanted; None for all.
        step_min, step_max
            First and last step wanted.
        """
        conditions: list[ColumnElement[bool]] = []
        if ranks is not None:
            conditions.append(tuple_(STEPS.c.program, STEPS.c.rank).in_(ranks))
        if step_min is not None:
            conditions.append(STEPS.c.step >= step_min)
        if step_max is not None:
            conditions.append(STEPS.c.step <= step_max)
        return self._all(StepCount, STEPS, *conditions)

    def step_sums(self, level: int, ranks: Sequence[tuple[int, int]] | None = None) -> list[StepSum]:
        """Steps summed up by 8 ** ``level``, by program, rank and step.

        Parameters
        ----------
        level
            0 to 4.
        ranks
            (program, rank) of those wanted, with what they counted; None: of all ranks of a program together.
        """
        if ranks is None:
            return self._kept_step_sums(level, STEP_LEVELS.c.rank == ALL_RANKS)
        kept = self._kept_step_sums(level, of_ranks(ranks, STEP_LEVELS.c)) if level else []
        after = dict.fromkeys(ranks, 0)
        after.update({(of.program, of.rank): of.step + of.length for of in kept})
        rest = [step for key, first in after.items() for step in self.step_counts([key], step_min=first)]
        return sorted([*kept, *summed(rest, 8**level)], key=lambda of: (of.program, of.rank, of.step))

    def first_steps(self) -> dict[tuple[int, int], int]:
        """(Program, rank) to its first analysed step."""
        stream, step = STREAM_HEALTH.c, STEPS.c
        # For each rank a look at its key: all steps of ten thousand ranks take seconds.
        first = (
            select(func.min(step.step))
            .where(step.run == stream.run, step.program == stream.program, step.rank == stream.rank)
            .scalar_subquery()
        )
        rows = self._rows(select(stream.program, stream.rank, first).where(stream.run == self._run))
        return {(program, rank): number for program, rank, number in rows if number is not None}

    def time_range(self) -> tuple[int, int] | None:
        """Start of the first and end of the last analysed step, in µs; None before there is one."""
        total = STEP_LEVELS.c
        statement = select(func.min(total.start_us), func.max(total.end_us)).where(
            total.run == self._run,
            total.level == LEVELS[-1],
            total.rank == ALL_RANKS,
            total.start_us < NEVER_US,
        )
        start, end = self._rows(statement)[0]
        return None if start is None else (start, end)

    def rank_statistics(self) -> list[RankStatistics]:
        """Anomalies per step of each rank, over all its analysed steps."""
        # Here because it loads compiled code, 0.7 s that a query of calls need not wait.
        from chimbuko.provenance.ranking import rank_statistics

        cell = STEP_HISTOGRAMS.c
        columns = (cell.program, cell.rank, cell.anomalies, cell.steps, cell.severity_us, cell.last_step)
        statement = select(*columns).where(cell.run == self._run, cell.steps > 0)
        return rank_statistics([tuple(row) for row in self._rows(statement.order_by(*columns[:3]))])

    def path_statistics(self) -> list[PathStatistics]:
        """Each call path over all ranks, as last reported by the parameter server."""
        columns = PATH_STATISTICS.c
        numbers = [columns[name] for name in PathStatistics.__struct_fields__[2:]]
        rows = self._rows(
            select(columns.path, *numbers).where(columns.run == self._run).order_by(columns.path)
        )
        programs, paths, functions = (
            self._names.programs_of_functions(),
            self._names.paths,
            self._names.functions,
        )
        on_paths = [(paths.functions(path), of_path) for path, *of_path in rows]
        return [
            PathStatistics(programs[on_path[-1]], [functions[number] for number in on_path], *of_path)
            for on_path, of_path in on_paths
        ]

    def _kept_step_sums(self, level: int, ranks: ColumnElement[bool]) -> list[StepSum]:
        total = STEP_LEVELS.c
        columns = (total.program, total.rank, total.bucket * 8**level, literal(8**level), total.steps)
        numbers = (total[name] for name in StepSum.__struct_fields__[len(columns) :])
        statement = select(*columns, *numbers).where(total.run == self._run, total.level == level, ranks)
        return [StepSum(*row) for row in self._rows(statement.order_by(*columns[:2], total.bucket))]

    def function_statistics(self) -> list[FunctionStatistics]:
        """Each function over all ranks, as last reported by the parameter server."""
        function = (FUNCTIONS.c.program, FUNCTIONS.c.name)
        numbers = [
            FUNCTION_STATISTICS.c[name] for name in FunctionStatistics.__struct_fields__[len(function) :]
        ]
        of_function = and_(
            FUNCTIONS.c.run == FUNCTION_STATISTICS.c.run,
            FUNCTIONS.c.number == FUNCTION_STATISTICS.c.function,
        )
        statement = select(*function, *numbers).join_from(FUNCTION_STATISTICS, FUNCTIONS, of_function)
        rows = self._rows(statement.where(FUNCTIONS.c.run == self._run).order_by(*function))
        return [FunctionStatistics(*row) for row in rows]

    def health(self) -> list[StreamHealth]:
        """Latest running totals of each stream."""
        return self._all(StreamHealth, STREAM_HEALTH)

    def metadata(self, program: int | None = None, rank: int | None = None) -> list[Metadata]:
        """Metadata of all streams, or of one program or rank."""
        columns = METADATA.c
        wanted = ((columns.program, program), (columns.rank, rank))
        conditions = (column == value for column, value in wanted if value is not None)
        statement = select(columns.program, columns.rank, columns.thread, columns.key, columns.value)
        rows = self._rows(statement.where(columns.run == self._run, *conditions))
        texts = self._names.texts
        return sorted(
            (
                Metadata(program, rank, thread, texts[key], texts[value])
                for program, rank, thread, key, value in rows
            ),
            key=lambda item: (item.program, item.rank, item.thread, item.key),
        )

    def counter_statistics(self) -> list[tuple[int, int, CounterStatistics]]:
        """Program, rank and the running totals of each of their counters."""
        statement = select(*COUNTER_STATISTICS.columns).where(COUNTER_STATISTICS.c.run == self._run)
        rows = self._rows(statement.order_by(*COUNTER_STATISTICS.primary_key))
        return [
            (program, rank, CounterStatistics(self._names.texts[counter], *moments))
            for _, program, rank, counter, *moments in rows
        ]

    def dropped(self) -> list[Dropped]:
        """Anomalies that were found but not kept, because a spool was full."""
        return self._all(Dropped, DROPPED)

    def prunings(self) -> list[Pruning]:
        """What was removed of the run, the latest first, and of each the most time lost first."""
        names = (PRUNINGS.c[name] for name in Pruning.__struct_fields__[2:])
        of_function = and_(FUNCTIONS.c.run == PRUNINGS.c.run, FUNCTIONS.c.number == PRUNINGS.c.function)
        statement = select(FUNCTIONS.c.program, FUNCTIONS.c.name, *names).where(PRUNINGS.c.run == self._run)
        order = PRUNINGS.c.number.desc(), PRUNINGS.c.severity_us.desc(), PRUNINGS.c.function
        rows = self._rows(statement.join_from(PRUNINGS, FUNCTIONS, of_function).order_by(*order))
        return [Pruning(*row) for row in rows]

    def _newest_run(self) -> str:
        rows = self._rows(select(RUNS.c.id).order_by(RUNS.c.started_us.desc()).limit(1))
        if not rows:
            raise StoreError(f"{public_url(self._engine.url)}: holds no run yet")
        return str(rows[0][0])

    @property
    def _run(self) -> int:
        """The run's number in the store; -1 where it is not there, or not yet."""
        if self._number is None:
            rows = self._rows(select(RUNS.c.number).where(RUNS.c.id == self.run_id))
            self._number = int(rows[0][0]) if rows else None
        return -1 if self._number is None else self._number

    def _reader(self) -> CallReader:
        return CallReader(Names(self._names.functions, self._names.texts), self.run().config.detector)

    def _number_of(self, program: int, function: str) -> int:
        """A function's number; -1 where it has none."""
        columns = FUNCTIONS.c
        one = (columns.run == self._run, columns.program == program, columns.name == function)
        rows = self._rows(select(columns.number).where(*one))
        return int(rows[0][0]) if rows else -1

    def _resolve(self, wanted: CallFilter) -> Resolved:
        resolved = self._names.resolve(wanted)
        if wanted.detector in (None, self.run().config.detector):
            return resolved
        return replace(resolved, is_nothing=True)

    def _searches(self, wanted: CallFilter) -> list[Search]:
        return searches(wanted, self._resolve(wanted))

    def condition(self, wanted: CallFilter) -> ColumnElement[bool]:
        """A filter as a condition on the table of calls."""
        return or_(false(), *(part.all_conditions() for part in self._searches(wanted)))

    def _places_counted(self, parts: Sequence[Search]) -> list[list[int]]:
        """How many calls each place of each part finds, up to ``FEW``; SQLite alone needs to know."""
        statements = [part.counted(place).scalar_subquery() for part in parts for place in part.places]
        if not statements or self._engine.dialect.name != "sqlite":
            return [[0] * len(part.places) for part in parts]
        counts = iter(self._rows(select(*statements))[0])
        return [[next(counts) for _ in part.places] for part in parts]

    def _all(
        self, kind: type[StructType], table: Table, *conditions: ColumnElement[bool]
    ) -> list[StructType]:
        """All rows of a table of this run, as structs with the same field names."""
        columns = [table.c[name] for name in kind.__struct_fields__]
        statement = select(*columns).where(table.c.run == self._run, *conditions)
        return [
            msgspec.convert(list(row), kind) for row in self._rows(statement.order_by(*table.primary_key))
        ]

    def _rows(self, statement: AnySelect) -> Sequence[AnyRow]:
        with store_errors(self._engine), self._engine.connect() as connection:
            return connection.execute(statement).all()


def open_run(run: RunDirectory) -> Provenance:
    """The provenance of the run in a folder, whether it goes on or has ended.

    Raises
    ------
    ChimbukoError
        The folder or its store cannot be read.
    """
    info = run.read_info()
    return Provenance(open_for_reading(run.used_store_url(info)), info.id)
