"""Turns a filter into searches that an index answers: among a million calls a page takes milliseconds.

A search either begins at the few calls that one index finds, and sorts them; or it walks through an index
that has the wanted order, and leaves out what does not match. Which is faster depends on how many calls
match, so they are counted first, up to ``FEW``. PostgreSQL knows by itself; SQLite is given the one to take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, and_, bindparam, false, func, literal, or_, select

from chimbuko.core.arrays import RankKey
from chimbuko.provenance.query.filters import MATCHES, CallFilter, Cursor, Match
from chimbuko.provenance.query.rows import AnySelect
from chimbuko.provenance.store.tables import CALLS, ORDERS, PLACES

FEW = 5_000
"""Calls that are sorted in 5 ms. Where more match, of a million every 200th does, and walking to the fiftieth
takes as long."""
LONG_US = 1_000_000
"""Calls that are longer are looked for by their runtime, others by when they began."""

RARE = {"is_gpu": "ix_calls_gpu", "is_open": "ix_calls_open"}
"""Columns with an index of the calls alone of which they are true."""

Conditions = tuple[ColumnElement[bool], ...]


@dataclass(frozen=True)
class Place:
    """What one index finds."""

    index: str
    conditions: Conditions
    is_sorted: bool = False
    """Whether it has what it finds in order of severity."""


@dataclass(frozen=True)
class Search:
    """A part of the calls that are wanted; the parts of a filter have no call in common."""

    conditions: Conditions
    is_anomaly: bool
    places: tuple[Place, ...] = ()

    def narrowed(self, *places: Place, others: Conditions = ()) -> Search:
        """Only what is also found there."""
        return replace(self, places=self.places + places, conditions=self.conditions + others)

    def all_conditions(self) -> ColumnElement[bool]:
        """On the table of calls."""
        found = (condition for place in self.places for condition in place.conditions)
        return and_(*self.conditions, *found)

    def counted(self, place: Place) -> AnySelect:
        """Statement that counts what a place finds, up to ``FEW``."""
        found = select(literal(1)).select_from(CALLS).where(self.conditions[0], *place.conditions)
        if place.index not in RARE.values():
            found = found.where(self.conditions[1])
        return select(func.count()).select_from(with_index(found, place.index).limit(FEW).subquery())

    def best(self, sort: str, counts: Sequence[int]) -> str:
        """The index to take, where the places find so many calls."""
        found, place = min(zip(counts, self.places, strict=True), key=itemgetter(0), default=(FEW, None))
        if place is not None and (found < FEW or sort not in ORDERS):
            return place.index
        if sort not in ORDERS:
            # All of a label are sorted, a second for a million: read them as they are stored, by time.
            return "ix_calls_entry_us"
        sorted_places = [place.index for place in self.places if place.is_sorted and sort == "severity_us"]
        return sorted_places[0] if sorted_places else f"ix_calls_{sort}"

    def narrowest(self, counts: Sequence[int]) -> str | None:
        """The index that finds fewest; None where there is no choice."""
        place = min(zip(counts, self.places, strict=True), key=itemgetter(0), default=(0, None))[1]
        return None if place is None else place.index

    def first(self, sort: str, descending: bool, limit: int, cursor: Cursor | None, index: str) -> AnySelect:
        """Statement that reads number and sort value of the first calls after a cursor."""
        column = CALLS.c[sort]
        statement = select(CALLS.c.id, column.label("sorted_by")).where(self.all_conditions())
        if cursor is not None:
            statement = statement.where(cursor.condition())
        order = [by.desc() if descending else by.asc() for by in (column, CALLS.c.id)]
        return with_index(statement.order_by(*order).limit(limit), index)


def with_index(statement: AnySelect, index: str) -> AnySelect:
    """In SQLite."""
    return statement.with_hint(CALLS, f"INDEXED BY {index}", "sqlite")


@dataclass(frozen=True)
class Resolved:
    """What the names of a filter mean in a run; None: there is no such condition."""

    run: int
    functions: Sequence[int] | None = None
    paths: Sequence[int] | None = None
    """On which a function is; calls of unknown path are not found by it."""
    ranks: Sequence[RankKey] | None = None
    """Of a node."""
    text_functions: Sequence[int] | None = None
    text_paths: Sequence[int] = ()
    text_ranks: Sequence[RankKey] = ()
    finding: Place | None = None
    """Where its calls are."""
    is_nothing: bool = False
    """No call can match."""


def searches(wanted: CallFilter, resolved: Resolved) -> list[Search]:
    """The parts of what a filter wants; together they are all of it."""
    if resolved.is_nothing:
        return []
    call = CALLS.c
    labels = (True, False) if wanted.label is None else (wanted.label == "anomaly",)
    places, others = _matched(wanted)
    places = [*_places_by_name(resolved), *places]
    parts = [
        Search((call.run == resolved.run, call.is_anomaly.is_(label)), label).narrowed(
            *places, others=(*others, *_text(resolved))
        )
        for label in labels
    ]
    return [timed for part in parts for timed in _by_time(part, wanted.time_min_us, wanted.time_max_us)]


def of_ranks(ranks: Iterable[RankKey], columns: Any = CALLS.c) -> ColumnElement[bool]:
    """Condition on the table of calls, or another: one of these ranks."""
    by_program = [
        (columns.program == program) & one_of(columns.rank, [rank for _, rank in some])
        for program, some in groupby(sorted(ranks), key=lambda rank: rank[0])
    ]
    return or_(false(), *by_program)


def one_of(column: Any, numbers: Iterable[int]) -> ColumnElement[bool]:
    """Condition: the column has one of these values."""
    # Written into the statement: a pattern may match more than a database takes parameters.
    values: BindParameter[Any] = bindparam(
        "numbers", list(numbers), expanding=True, literal_execute=True, unique=True
    )
    condition: ColumnElement[bool] = column.in_(values)
    return condition


def within(column: Any, lowest: float | None, highest: float | None) -> Conditions:
    """Conditions: the column lies between these, where they are given."""
    return (
        *(() if lowest is None else (column >= lowest,)),
        *(() if highest is None else (column <= highest,)),
    )


def _places_by_name(resolved: Resolved) -> list[Place]:
    call = CALLS.c
    places = []
    if resolved.functions is not None:
        is_one = len(resolved.functions) == 1
        places.append(Place("ix_calls_function", (one_of(call.function, resolved.functions),), is_one))
    if resolved.paths is not None:
        places.append(Place("ix_calls_path", (one_of(call.path, resolved.paths),)))
    if resolved.ranks is not None:
        ranks = {rank for _, rank in resolved.ranks}
        conditions = (one_of(call.rank, ranks), of_ranks(resolved.ranks))
        places.append(Place("ix_calls_rank", conditions, len(ranks) == 1))
    if resolved.finding is not None:
        places.append(resolved.finding)
    return places


def _matched(wanted: CallFilter) -> tuple[list[Place], Conditions]:
    """Where the filters that compare a column find calls, and the conditions of those without an index."""
    found: dict[tuple[str, bool], list[ColumnElement[bool]]] = {}
    for name, match in MATCHES.items():
        value = getattr(wanted, name)
        if value is not None:
            condition = _condition(match, value)
            found.setdefault((match.column, match.how == "equal"), []).append(condition)
    places, others = [], []
    for (column, is_equal), conditions in found.items():
        if is_equal and column in RARE:
            others += conditions
            if getattr(wanted, column):
                # Of such calls alone.
                places.append(Place(RARE[column], (CALLS.c[column],), True))
        elif column in PLACES or (column in ORDERS and not is_equal):
            places.append(Place(f"ix_calls_{column}", tuple(conditions), is_equal))
        else:
            others += conditions
    return places, tuple(others)


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
    """The part's calls whose interval overlaps that of two times."""
    call = CALLS.c
    if first_us is None:
        if last_us is None:
            return [part]
        return [part.narrowed(Place("ix_calls_entry_us", (call.entry_us <= last_us,)))]
    earlier_us = first_us - LONG_US
    has_ended, goes_on = call.is_open.is_(False), call.entry_us + call.inclusive_us >= first_us
    until = within(call.entry_us, None, last_us)
    return [
        part.narrowed(
            Place("ix_calls_entry_us", within(call.entry_us, earlier_us, last_us)),
            others=(has_ended, goes_on),
        ),
        part.narrowed(
            Place("ix_calls_inclusive_us", (call.inclusive_us >= LONG_US,)),
            others=(has_ended, goes_on, call.entry_us < earlier_us),
        ),
        part.narrowed(Place("ix_calls_open", (call.is_open,), True), others=until),
    ]
