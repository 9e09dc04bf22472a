"""What can be asked of the provenance of a run; command line, HTTP and dashboard ask here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeAlias, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Engine, Select, Table, case, func, select, tuple_

from chimbuko.errors import ConfigError, StoreError
from chimbuko.messages import FunctionStatistics, RankStatistics
from chimbuko.provenance.calls import (
    SORTS,
    SUMMARY_COLUMNS,
    AnyRow,
    CallFilter,
    CallPage,
    Cursor,
    Sort,
    matching_names,
    of_functions,
    to_record,
    to_summary,
)
from chimbuko.provenance.store import open_for_reading, public_url, store_errors
from chimbuko.provenance.tables import (
    CALLS,
    DROPPED,
    FUNCTION_STATISTICS,
    FUNCTIONS,
    METADATA,
    PROGRAMS,
    RUNS,
    STEPS,
    STREAM_HEALTH,
)
from chimbuko.records import CallRecord, Label, Metadata, StepCount, StreamHealth
from chimbuko.rundir import RunDirectory, RunInfo

AnySelect: TypeAlias = Select[*tuple[Any, ...]]
StructType = TypeVar("StructType", bound=msgspec.Struct)


class Dropped(msgspec.Struct, frozen=True, array_like=True):
    """Anomalies of one function that a stream's spool had no room for."""

    stream: str
    function: str
    anomalies: int


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
        statement = select(PROGRAMS.c.program, PROGRAMS.c.name).where(PROGRAMS.c.run_id == self.run_id)
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
        statement = _select_calls(CALLS.c[sort], CALLS.c.id).where(*self._conditions(wanted))
        if cursor is not None:
            statement = statement.where(Cursor.decode(cursor, sort, descending).condition())
        order = [column.desc() if descending else column.asc() for column in (CALLS.c[sort], CALLS.c.id)]
        rows = self._rows(statement.order_by(*order).limit(limit + 1))
        shown = rows[:limit]
        more = len(rows) > limit
        following = Cursor(sort, descending, *shown[-1][-2:]).encode() if more else None
        return CallPage([to_summary(row) for row in shown], following)

    def count(self, wanted: CallFilter) -> int:
        """How many calls the filter matches."""
        statement = select(func.count()).select_from(CALLS).where(*self._conditions(wanted))
        return int(self._rows(statement)[0][0])

    def call(self, event_id: str) -> CallRecord:
        """Everything kept about one call.

        Raises
        ------
        ConfigError
            The run has no such call recorded.
        """
        conditions = (CALLS.c.run_id == self.run_id, CALLS.c.event_id == event_id)
        rows = self._rows(_select_calls(CALLS.c.details).where(*conditions))
        if not rows:
            raise ConfigError(
                f"call {event_id!r}: not recorded in this run; 'chimbuko query' lists those that are"
            )
        return to_record(rows[0])

    def normal_like(self, record: CallRecord) -> CallRecord | None:
        """The recorded normal call to compare with: same function, same rank if possible, nearest in step."""
        other_rank = case((CALLS.c.rank == record.rank, 0), else_=1)
        rows = self._rows(
            _select_calls(CALLS.c.details)
            .where(
                FUNCTIONS.c.run_id == self.run_id,
                FUNCTIONS.c.program == record.program,
                FUNCTIONS.c.name == record.function,
                CALLS.c.label == Label.NORMAL.value,
                CALLS.c.event_id != record.id,
            )
            .order_by(other_rank, func.abs(CALLS.c.step - record.step), CALLS.c.event_id)
            .limit(1)
        )
        return to_record(rows[0]) if rows else None

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

    def time_range(self) -> tuple[int, int] | None:
        """Start of the first and end of the last analysed step, in µs; None before there is one."""
        statement = select(func.min(STEPS.c.start_us), func.max(STEPS.c.end_us))
        # A step without events, before there were any, has no time: 0.
        statement = statement.where(STEPS.c.run_id == self.run_id, STEPS.c.start_us > 0)
        start, end = self._rows(statement)[0]
        return None if start is None else (start, end)

    def rank_statistics(self) -> list[RankStatistics]:
        """Anomalies per step of each rank, over all its analysed steps."""
        # Here because it loads compiled code, 0.7 s that a query of calls need not wait.
        from chimbuko.provenance.ranking import rank_statistics

        columns = (STEPS.c.program, STEPS.c.rank, STEPS.c.anomalies)
        counted = (func.count(), func.sum(STEPS.c.severity_us), func.max(STEPS.c.step))
        statement = select(*columns, *counted).where(STEPS.c.run_id == self.run_id)
        rows = self._rows(statement.group_by(*columns).order_by(*columns))
        return rank_statistics([tuple(row) for row in rows])

    def function_statistics(self) -> list[FunctionStatistics]:
        """Each function over all ranks, as last reported by the parameter server."""
        function = (FUNCTIONS.c.program, FUNCTIONS.c.name)
        numbers = [
            FUNCTION_STATISTICS.c[name] for name in FunctionStatistics.__struct_fields__[len(function) :]
        ]
        statement = select(*function, *numbers).join_from(FUNCTION_STATISTICS, FUNCTIONS)
        rows = self._rows(statement.where(FUNCTIONS.c.run_id == self.run_id).order_by(*function))
        return [FunctionStatistics(*row) for row in rows]

    def health(self) -> list[StreamHealth]:
        """Latest running totals of each stream."""
        return self._all(StreamHealth, STREAM_HEALTH)

    def metadata(self, program: int | None = None, rank: int | None = None) -> list[Metadata]:
        """Metadata of all streams, or of one program or rank."""
        columns = METADATA.c
        wanted = ((columns.program, program), (columns.rank, rank))
        return self._all(
            Metadata, METADATA, *(column == value for column, value in wanted if value is not None)
        )

    def dropped(self) -> list[Dropped]:
        """Anomalies that were found but not kept, because a spool was full."""
        return self._all(Dropped, DROPPED)

    def _newest_run(self) -> str:
        rows = self._rows(select(RUNS.c.id).order_by(RUNS.c.started_us.desc()).limit(1))
        if not rows:
            raise StoreError(f"{public_url(self._engine.url)}: holds no run yet")
        return str(rows[0][0])

    def _conditions(self, wanted: CallFilter) -> list[ColumnElement[bool]]:
        conditions = [CALLS.c.run_id == self.run_id, *wanted.conditions()]
        if wanted.function is not None:
            named = select(FUNCTIONS.c.name, FUNCTIONS.c.id).where(FUNCTIONS.c.run_id == self.run_id)
            functions = self._rows(named)
            names = matching_names(wanted.function, {row.name for row in functions})
            conditions.append(of_functions([row.id for row in functions if row.name in names]))
        return conditions

    def _all(
        self, kind: type[StructType], table: Table, *conditions: ColumnElement[bool]
    ) -> list[StructType]:
        """All rows of a table of this run, as structs with the same field names."""
        columns = [table.c[name] for name in kind.__struct_fields__]
        statement = select(*columns).where(table.c.run_id == self.run_id, *conditions)
        return [kind(*row) for row in self._rows(statement.order_by(*table.primary_key))]

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
    # The file in the folder comes first: the folder may have been moved since its URL was noted.
    url = f"sqlite:///{run.store_path}" if run.store_path.exists() else info.store_url
    return Provenance(open_for_reading(url), info.id)


def _select_calls(*more: ColumnElement[Any]) -> AnySelect:
    return select(*SUMMARY_COLUMNS, *more).join_from(CALLS, FUNCTIONS)
