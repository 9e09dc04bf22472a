"""Queries of the recorded calls of a run."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import ColumnElement, case, false, func, or_, select, union_all

from chimbuko.core.calls.record import CallRecord, call_id
from chimbuko.core.calls.schema import SORTS, Label
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query.aggregates import (
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
from chimbuko.provenance.query.filters import CallFilter, CallPage, Cursor, Sort
from chimbuko.provenance.query.planner import Resolved, Search, one_of, searches, with_index
from chimbuko.provenance.query.rows import AnyRow, CallReader, is_call, select_records, select_summaries
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.provenance.query.steps import Steps
from chimbuko.provenance.store.decode import Names
from chimbuko.provenance.store.tables import CALLS


class Verdict(NamedTuple):
    """Verdict on a call: the fields of its record that change where it is judged again, and decide causes."""

    label: Label
    is_relabelled: bool
    severity_us: float
    expected_us: float


class Calls:
    """Recorded calls of a run: pages of them, their number, and sums by what they have in common."""

    def __init__(self, reader: RunReader, steps: Steps) -> None:
        self.reader = reader
        self._steps = steps

    def page(
        self,
        wanted: CallFilter,
        sort: Sort = "severity_us",
        descending: bool = True,
        limit: int = 50,
        cursor: str | None = None,
    ) -> CallPage:
        """Return a page of calls.

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
        parts = self.searches(wanted)
        if not parts:
            return CallPage([], None)
        firsts = [
            part.first(sort, descending, limit + 1, after, part.best(sort, counts)).subquery()
            for part, counts in zip(parts, self.calls_by_scan(parts), strict=True)
        ]
        found = union_all(*(select(first.c.id, first.c.sorted_by) for first in firsts)).subquery()
        statement = select_summaries(found.c.sorted_by, CALLS.c.id, found=found)
        order = [column.desc() if descending else column.asc() for column in (found.c.sorted_by, CALLS.c.id)]
        rows = self.reader.rows(statement.order_by(*order).limit(limit + 1))
        shown = rows[:limit]
        more = len(rows) > limit
        following = Cursor(sort, descending, *shown[-1][-2:]).encode() if more else None
        reader = self.made() if shown else None
        return CallPage([reader.summary(row) for row in shown] if reader else [], following)

    def count(self, wanted: CallFilter, most: int | None = None) -> int:
        """Return how many calls the filter matches.

        Parameters
        ----------
        most
            Number at which to stop: to count a million one by one takes a second. Most filters are answered
            without, by sums that the writer keeps.
        """
        resolved = self._resolve(wanted)
        by = counted_by(wanted)
        if by is not None and not resolved.is_nothing:
            found = int(self.reader.rows(kept_count(by, wanted, resolved))[0][0])
            return found if most is None else min(found, most)
        counted = 0
        for part in searches(wanted, resolved):
            matching = select(CALLS.c.id).where(part.all_conditions())
            if most is not None:
                matching = matching.limit(most - counted)
            counted += int(self.reader.rows(select(func.count()).select_from(matching.subquery()))[0][0])
        return counted

    def totals(
        self,
        by: By,
        wanted: CallFilter | None = None,
        limit: int | None = None,
        width_us: int | None = None,
    ) -> list[Total]:
        """Return sums over the abnormal calls that the filter matches, by what they have in common.

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
        times = self._steps.time_range() or (0, 0)
        width_us = time_width_us(by, width_us, times[1] - times[0])
        resolved = self._resolve(wanted)
        kept = None if resolved.is_nothing else kept_sums(by, wanted, resolved, width_us)
        if kept is not None:
            rows = list(self.reader.rows(kept))
        else:
            parts = searches(wanted, resolved)
            rows = [
                row
                for part, counts in zip(parts, self.calls_by_scan(parts), strict=True)
                for row in self.reader.rows(made_sums(by, part, part.narrowest(counts), width_us))
            ]
        return named(by, merged(by, rows), self.reader.names, width_us)[:limit]

    def record(self, event_id: str) -> CallRecord:
        """Return everything kept about one call.

        Raises
        ------
        ConfigError
            The run has no such call recorded.
        """
        is_this = is_call(event_id)
        of_run = CALLS.c.run == self.reader.run
        rows = [] if is_this is None else self.reader.rows(select_records().where(of_run, is_this))
        if not rows:
            raise ConfigError(
                f"call {event_id!r}: not recorded in this run; 'chimbuko query' lists those that are"
            )
        return self._made_of(rows[0]).record(rows[0])

    def records(self, wanted: CallFilter, at_once: int = 1000) -> Iterator[CallRecord]:
        """Yield everything kept about calls that the filter matches, by program, rank and step."""
        return self._records(wanted, (CALLS.c.program, CALLS.c.rank, CALLS.c.step, CALLS.c.id), at_once)

    def in_time(self, wanted: CallFilter, at_once: int = 1000) -> Iterator[CallRecord]:
        """Yield everything kept about the calls that the filter matches, in order of their entry."""
        return self._records(wanted, (CALLS.c.entry_us, CALLS.c.id), at_once)

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        """Yield ids and verdicts of all recorded calls, in order of their entry."""
        call = CALLS.c
        columns = (call.program, call.rank, call.begin_step, call.begin_row)
        verdict = call.is_anomaly, call.is_relabelled, call.severity_us, call.expected_us
        statement = select(*columns, *verdict).where(call.run == self.reader.run)
        for *place, is_anomaly, is_relabelled, severity_us, expected_us in self.reader.rows(
            statement.order_by(call.entry_us, call.id)
        ):
            label = Label.ANOMALY if is_anomaly else Label.NORMAL
            yield call_id(*place), Verdict(label, is_relabelled, severity_us, expected_us)

    def _records(
        self, wanted: CallFilter, order: Sequence[ColumnElement[Any]], at_once: int
    ) -> Iterator[CallRecord]:
        # Row numbers are read first: PostgreSQL's client would hold all records, and a slow reader would hold
        # up SQLite.
        with self.reader.connected() as connection:
            chosen = select(CALLS.c.id).where(self.condition(wanted)).order_by(*order)
            numbers = array("q", connection.scalars(chosen))
        relabelled = self._relabelled() if numbers else {}
        for first in range(0, len(numbers), at_once):
            is_next = one_of(CALLS.c.id, numbers[first : first + at_once])
            rows = self.reader.rows(select_records().where(is_next).order_by(*order))
            yield from map(replace(self.made(), relabelled=relabelled).record, rows)

    def normal_like(self, record: CallRecord) -> CallRecord | None:
        """Return the normal call to compare with: same function, same rank if possible, nearest in step."""
        is_this = is_call(record.id)
        assert is_this is not None
        call = CALLS.c
        nearest = (
            select(call.id)
            .where(
                call.run == self.reader.run,
                call.function == self.reader.function_number(record.program, record.function),
                call.is_anomaly.is_(False),
                ~is_this,
            )
            .order_by(
                case((call.rank == record.rank, 0), else_=1),
                func.abs(call.step - record.step),
                call.rank,
                call.id,
            )
            .limit(1)
        )
        wanted = with_index(nearest, "ix_calls_function").scalar_subquery()
        rows = self.reader.rows(select_records().where(call.id == wanted))
        return self._made_of(rows[0]).record(rows[0]) if rows else None

    def condition(self, wanted: CallFilter) -> ColumnElement[bool]:
        """Return a filter as a condition on the table of calls."""
        return or_(false(), *(part.all_conditions() for part in self.searches(wanted)))

    def made(self) -> CallReader:
        """Reader that makes calls of rows."""
        return CallReader(Names(self.reader.names.functions, self.reader.names.texts), self.reader.detector)

    def _made_of(self, row: AnyRow) -> CallReader:
        """Return the reader that makes a record of a row, with the final labels of the calls around it."""
        of_rank = (CALLS.c.program == row.program, CALLS.c.rank == row.rank)
        return replace(self.made(), relabelled=self._relabelled(*of_rank))

    def _relabelled(self, *conditions: ColumnElement[bool]) -> dict[str, bool]:
        call = CALLS.c
        columns = (call.program, call.rank, call.begin_step, call.begin_row, call.is_anomaly)
        statement = select(*columns).where(call.run == self.reader.run, call.is_relabelled, *conditions)
        return {call_id(*place): bool(is_anomaly) for *place, is_anomaly in self.reader.rows(statement)}

    def _resolve(self, wanted: CallFilter) -> Resolved:
        resolved = self.reader.names.resolve(wanted)
        if wanted.detector in (None, self.reader.detector):
            return resolved
        return replace(resolved, is_nothing=True)

    def searches(self, wanted: CallFilter) -> list[Search]:
        """Return the searches that together find what a filter wants."""
        return searches(wanted, self._resolve(wanted))

    def calls_by_scan(self, parts: Sequence[Search]) -> list[list[int]]:
        """Return how many calls each scan of each search finds, up to ``FEW``; SQLite alone needs to know."""
        statements = [part.counted(scan).scalar_subquery() for part in parts for scan in part.scans]
        if not statements or not self.reader.is_sqlite:
            return [[0] * len(part.scans) for part in parts]
        counts = iter(self.reader.rows(select(*statements))[0])
        return [[next(counts) for _ in part.scans] for part in parts]
