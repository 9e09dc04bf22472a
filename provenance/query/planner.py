"""Turns a filter into searches that an index answers: among a million calls a page takes milliseconds.

A search either begins at the few calls that one index finds, and sorts them; or it walks through an index
that has the wanted order, and leaves out what does not match. Which is faster depends on how many calls
match, so they are counted first, up to ``FEW``. PostgreSQL chooses an index by itself; SQLite is told which
one to take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import BindParameter, ColumnElement, and_, bindparam, false, func, literal, or_, select

from chimbuko.core.arrays import RankKey
from chimbuko.provenance.query.filters import MATCHES, CallFilter, Cursor, Match
from chimbuko.provenance.query.rows import AnySelect
from chimbuko.provenance.store.tables import CALLS, ORDERS, PLACES

FEW = 5_000
"""Number of calls that are sorted in 5 ms. Where more match, every 200th of a million does, and walking to
the fiftieth takes as long."""
LONG_US = 1_000_000
"""Runtime above which calls are searched for by their runtime; shorter ones are by the time of their
entry."""

RARE = {"is_gpu": "ix_calls_gpu", "is_open": "ix_calls_open"}
"""Columns with an index that holds only the calls for which they are true."""

Conditions = tuple[ColumnElement[bool], ...]


class IndexScan(msgspec.Struct, frozen=True):
    """Scan of one index, by the conditions that it answers."""

    index: str
    conditions: Conditions
    is_sorted: bool = False
    """Whether it finds calls in order of severity."""


class Search(msgspec.Struct, frozen=True):
    """Search for a part of the calls that are wanted; the searches of a filter have no call in common."""

    conditions: Conditions
    is_anomaly: bool
    scans: tuple[IndexScan, ...] = ()

    def narrowed(self, *scans: IndexScan, others: Conditions = ()) -> Search:
        """Return the search for only what these scans find, too."""
        return replace(self, scans=self.scans + scans, conditions=self.conditions + others)

    def all_conditions(self) -> ColumnElement[bool]:
        """Return all conditions, on the table of calls."""
        found = (condition for scan in self.scans for condition in scan.conditions)
        return and_(*self.conditions, *found)

    def counted(self, scan: IndexScan) -> AnySelect:
        """Return a statement that counts what a scan finds, up to ``FEW``."""
        found = select(literal(1)).select_from(CALLS).where(self.conditions[0], *scan.conditions)
        if scan.index not in RARE.values():
            found = found.where(self.conditions[1])
        return select(func.count()).select_from(with_index(found, scan.index).limit(FEW).subquery())

    def best(self, sort: str, counts: Sequence[int]) -> str:
        """Return the index to take, where the scans find so many calls."""
        found, scan = min(zip(counts, self.scans, strict=True), key=itemgetter(0), default=(FEW, None))
        if scan is not None and (found < FEW or sort not in ORDERS):
            return scan.index
        if sort not in ORDERS:
            # To sort all calls of a label takes a second for a million: they are read as they are stored, by
            # time.
            return "ix_calls_entry_us"
        sorted_scans = [scan.index for scan in self.scans if scan.is_sorted and sort == "severity_us"]
        return sorted_scans[0] if sorted_scans else f"ix_calls_{sort}"

    def narrowest(self, counts: Sequence[int]) -> str | None:
        """Return the index that finds fewest calls; None if there is no choice."""
        scan = min(zip(counts, self.scans, strict=True), key=itemgetter(0), default=(0, None))[1]
        return None if scan is None else scan.index

    def first(self, sort: str, descending: bool, limit: int, cursor: Cursor | None, index: str) -> AnySelect:
        """Return a statement that reads row number and sort value of the first calls after a cursor."""
        column = CALLS.c[sort]
        statement = select(CALLS.c.id, column.label("sorted_by")).where(self.all_conditions())
        if cursor is not None:
            statement = statement.where(cursor.condition())
        order = [by.desc() if descending else by.asc() for by in (column, CALLS.c.id)]
        return with_index(statement.order_by(*order).limit(limit), index)


def with_index(statement: AnySelect, index: str) -> AnySelect:
    """Return a statement that takes this index in SQLite."""
    return statement.with_hint(CALLS, f"INDEXED BY {index}", "sqlite")


class Resolved(msgspec.Struct, frozen=True):
    """Meaning of the names of a filter in a run; a field is None where there is no such condition."""

    run: int
    functions: Sequence[int] | None = None
    paths: Sequence[int] | None = None
    """Paths that a function is on; calls of unknown path are not found by it."""
    ranks: Sequence[RankKey] | None = None
    """Ranks of a node."""
    text_functions: Sequence[int] | None = None
    text_paths: Sequence[int] = ()
    text_ranks: Sequence[RankKey] = ()
    finding: IndexScan | None = None
    """Index scan that finds the calls of the finding."""
    is_nothing: bool = False
    """Whether no call can match."""


def searches(wanted: CallFilter, resolved: Resolved) -> list[Search]:
    """Return the searches that together find all that a filter wants."""
    if resolved.is_nothing:
        return []
    call = CALLS.c
    labels = (True, False) if wanted.label is None else (wanted.label == "anomaly",)
    scans, others = _matched(wanted)
    scans = [*_scans_by_name(resolved), *scans]
    parts = [
        Search((call.run == resolved.run, call.is_anomaly.is_(label)), label).narrowed(
            *scans, others=(*others, *_text(resolved))
        )
        for label in labels
    ]
    return [timed for part in parts for timed in _by_time(part, wanted.time_min_us, wanted.time_max_us)]


def of_ranks(ranks: Iterable[RankKey], columns: Any = CALLS.c) -> ColumnElement[bool]:
    """Return the condition, on the table of calls or another, for one of these ranks."""
    by_program = [
        (columns.program == program) & one_of(columns.rank, [rank for _, rank in some])
        for program, some in groupby(sorted(ranks), key=lambda rank: rank[0])
    ]
    return or_(false(), *by_program)


def one_of(column: Any, numbers: Iterable[int]) -> ColumnElement[bool]:
    """Return the condition that a column has one of these values."""
    # The values stand in the statement, as a pattern may match more than a database takes parameters.
    values: BindParameter[Any] = bindparam(
        "numbers", list(numbers), expanding=True, literal_execute=True, unique=True
    )
    condition: ColumnElement[bool] = column.in_(values)
    return condition


def within(column: Any, lowest: float | None, highest: float | None) -> Conditions:
    """Return the conditions that a column lies between these, where they are given."""
    return (
        *(() if lowest is None else (column >= lowest,)),
        *(() if highest is None else (column <= highest,)),
    )


def _scans_by_name(resolved: Resolved) -> list[IndexScan]:
    call = CALLS.c
    scans = []
    if resolved.functions is not None:
        is_one = len(resolved.functions) == 1
        scans.append(IndexScan("ix_calls_function", (one_of(call.function, resolved.functions),), is_one))
    if resolved.paths is not None:
        scans.append(IndexScan("ix_calls_path", (one_of(call.path, resolved.paths),)))
    if resolved.ranks is not None:
        ranks = {rank for _, rank in resolved.ranks}
        conditions = (one_of(call.rank, ranks), of_ranks(resolved.ranks))
        scans.append(IndexScan("ix_calls_rank", conditions, len(ranks) == 1))
    if resolved.finding is not None:
        scans.append(resolved.finding)
    return scans


def _matched(wanted: CallFilter) -> tuple[list[IndexScan], Conditions]:
    """Return the scans of filters that compare a column, and the conditions of those without an index."""
    found: dict[tuple[str, bool], list[ColumnElement[bool]]] = {}
    for name, match in MATCHES.items():
        value = getattr(wanted, name)
        if value is not None:
            condition = _condition(match, value)
            found.setdefault((match.column, match.how == "equal"), []).append(condition)
    scans, others = [], []
    for (column, is_equal), conditions in found.items():
        if is_equal and column in RARE:
            others += conditions
            if getattr(wanted, column):
                # This index holds only such calls.
                scans.append(IndexScan(RARE[column], (CALLS.c[column],), True))
        elif column in PLACES or (column in ORDERS and not is_equal):
            scans.append(IndexScan(f"ix_calls_{column}", tuple(conditions), is_equal))
        else:
            others += conditions
    return scans, tuple(others)


def _condition(match: Match, value: Any) -> ColumnElement[bool]:
    column = CALLS.c[match.column]
    condition: ColumnElement[bool] = (
        column >= value
        if match.how == "least"
        else column <= value
        if match.how == "most"
        else column.is_(value)
        if isinstance(value, bool)
        else column == value
    )
    return condition


def _text(resolved: Resolved) -> Conditions:
    call = CALLS.c
    if resolved.text_functions is None:
        return ()
    found = [
        one_of(call.function, resolved.text_functions) if resolved.text_functions else false(),
        one_of(call.path, resolved.text_paths) if resolved.text_paths else false(),
        of_ranks(resolved.text_ranks),
    ]
    return (or_(*found),)


def _by_time(part: Search, first_us: int | None, last_us: int | None) -> list[Search]:
    """Return searches for those calls of a search whose interval overlaps that between two times."""
    call = CALLS.c
    if first_us is None:
        if last_us is None:
            return [part]
        return [part.narrowed(IndexScan("ix_calls_entry_us", (call.entry_us <= last_us,)))]
    earlier_us = first_us - LONG_US
    # Whatever entered in this time is under way in it. That the index alone tells: 100,000 such calls are
    # counted in 10 ms, and in 160 ms where each has to be looked up.
    inside = IndexScan("ix_calls_entry_us", within(call.entry_us, first_us, last_us))
    before = call.entry_us < first_us
    until = within(call.entry_us, None, last_us)
    goes_on = (call.is_open.is_(False), call.entry_us + call.inclusive_us >= first_us)
    return [
        part.narrowed(inside),
        part.narrowed(
            IndexScan("ix_calls_entry_us", (call.entry_us >= earlier_us, before, *until)), others=goes_on
        ),
        part.narrowed(
            IndexScan("ix_calls_inclusive_us", (call.inclusive_us >= LONG_US,)),
            others=(*goes_on, call.entry_us < earlier_us, *until),
        ),
        part.narrowed(IndexScan("ix_calls_open", (call.is_open,), True), others=(before, *until)),
    ]
