"""Sums over the recorded calls, kept current as calls are written: a million are ranked in milliseconds.

What is added here is taken out again when a call changes, so writing a call twice counts it once. Highest and
lowest values cannot be taken out: where one may have fallen, the sums of that group are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Table,
    and_,
    case,
    delete,
    func,
    insert,
    literal,
    select,
)

from chimbuko.provenance.store.coarserlevels import TIME_LEVELS_US
from chimbuko.provenance.store.statements import Accumulate
from chimbuko.provenance.store.tables import (
    CALLS,
    FUNCTION_TOTALS,
    NEVER_US,
    PATH_TOTALS,
    RANK_TOTALS,
    STEP_TOTALS,
    TIME_TOTALS,
)


class Counted(NamedTuple):
    """Columns of a call that are summed up."""

    is_anomaly: bool
    program: int
    rank: int
    function: int
    path: int
    step: int
    entry_us: int
    severity_us: float
    score: float

    def outdoes(self, other: Counted) -> bool:
        """Return whether no highest or lowest value is lost when this call takes the place of ``other``."""
        same_place = self[1:7] == other[1:7]
        is_higher = self.severity_us >= other.severity_us and self.score >= other.score
        return not other.is_anomaly or (self.is_anomaly and same_place and is_higher)


class _Grouping(msgspec.Struct, frozen=True):
    """Table of totals, with what it groups calls by."""

    table: Table
    columns: tuple[ColumnElement[Any], ...]
    """Columns of the table of calls that make the key, after the run."""
    key: Callable[[Counted], tuple[int, ...]]

    def conditions(self, key: tuple[int, ...]) -> list[ColumnElement[bool]]:
        """Return the conditions that select the row of totals of a group."""
        columns = list(self.table.primary_key.columns)[1:]
        return [column == value for column, value in zip(columns, key, strict=True)]

    def is_in(self, key: tuple[int, ...]) -> list[ColumnElement[bool]]:
        """Return the conditions that select the calls of a group."""
        return [column == value for column, value in zip(self.columns, key, strict=True)]


def _by_time(level: int, length_us: int) -> _Grouping:
    return _Grouping(
        TIME_TOTALS,
        (literal(level, literal_execute=True), CALLS.c.entry_us // literal(length_us, literal_execute=True)),
        lambda call: (level, call.entry_us // length_us),
    )


_OF_RANKS = _Grouping(RANK_TOTALS, (CALLS.c.program, CALLS.c.rank), lambda call: (call.program, call.rank))
_OVER_RANKS = (
    _Grouping(FUNCTION_TOTALS, (CALLS.c.function,), lambda call: (call.function,)),
    _Grouping(PATH_TOTALS, (CALLS.c.path,), lambda call: (call.path,)),
    _Grouping(STEP_TOTALS, (CALLS.c.step,), lambda call: (call.step,)),
    *(_by_time(level, length_us) for level, length_us in enumerate(TIME_LEVELS_US)),
)
_ADD = {
    grouping.table: Accumulate(
        grouping.table, highest=("highest_severity_us", "highest_score", "last_us"), lowest=("first_us",)
    )
    for grouping in (_OF_RANKS, *_OVER_RANKS)
}


class CallChanges(msgspec.Struct, frozen=True):
    """Changes of the table of calls that were written just now."""

    new: Sequence[Counted]
    """Calls that were not stored before."""
    replaced: Sequence[tuple[Counted, Counted]]
    """Pairs of what was stored of a call, and what is stored now, where that is not the same."""


def add_of_ranks(connection: Connection, run: int, changes: CallChanges) -> None:
    """Count calls in the sums of single ranks; ``run`` is the run's number."""
    _add_up(connection, run, _OF_RANKS, changes)


def add_over_ranks(connection: Connection, run: int, changes: CallChanges) -> None:
    """Count calls in all other sums, to which several writers add, in turn."""
    for grouping in _OVER_RANKS:
        _add_up(connection, run, grouping, changes)


def _add_up(connection: Connection, run: int, grouping: _Grouping, changes: CallChanges) -> None:
    sums: dict[tuple[int, ...], list[float]] = {}
    for call in changes.new:
        _add(sums, grouping.key(call), call, 1)
    for before, after in changes.replaced:
        _add(sums, grouping.key(before), before, -1)
        _add(sums, grouping.key(after), after, 1)
    _ADD[grouping.table].write(connection, [(run, *key, *numbers) for key, numbers in sorted(sums.items())])
    for key in {grouping.key(before) for before, after in changes.replaced if not after.outdoes(before)}:
        connection.execute(
            delete(grouping.table).where(grouping.table.c.run == run, *grouping.conditions(key))
        )
        _make(connection, run, grouping, grouping.is_in(key))


def rebuild(connection: Connection, run: int) -> None:
    """Make all totals of a run anew, after its calls were changed by others than the writer."""
    for table in _ADD:
        connection.execute(delete(table).where(table.c.run == run))
    for grouping in (_OF_RANKS, *_OVER_RANKS):
        _make(connection, run, grouping, [])


def _add(sums: dict[tuple[int, ...], list[float]], key: tuple[int, ...], call: Counted, sign: int) -> None:
    total = sums.get(key)
    if total is None:
        total = sums[key] = [0, 0, 0.0, 0.0, 0.0, NEVER_US, 0]
    if not call.is_anomaly:
        total[1] += sign
        return
    severity_us, entry_us = call.severity_us, call.entry_us
    total[0] += sign
    total[2] += sign * severity_us
    if sign > 0:
        # Comparisons, as calls of ``max`` and ``min`` took a third of the time of writing a call.
        if severity_us > total[3]:
            total[3] = severity_us
        if call.score > total[4]:
            total[4] = call.score
        if entry_us < total[5]:
            total[5] = entry_us
        if entry_us > total[6]:
            total[6] = entry_us


def _make(
    connection: Connection, run: int, grouping: _Grouping, conditions: list[ColumnElement[bool]]
) -> None:
    call = CALLS.c
    columns = (call.run, *grouping.columns)

    def of_anomalies(value: Any, otherwise: Any) -> ColumnElement[Any]:
        return case((call.is_anomaly, value), else_=otherwise)

    totals = (
        func.sum(of_anomalies(1, 0)),
        func.sum(of_anomalies(0, 1)),
        func.sum(of_anomalies(call.severity_us, 0.0)),
        func.max(of_anomalies(call.severity_us, 0.0)),
        func.max(of_anomalies(call.score, 0.0)),
        func.min(of_anomalies(call.entry_us, NEVER_US)),
        func.max(of_anomalies(call.entry_us, 0)),
    )
    # A literal number would be taken for the position of a column here.
    groups = [column for column in columns if not isinstance(column, BindParameter)]
    statement = select(*columns, *totals).where(and_(call.run == run, *conditions)).group_by(*groups)
    connection.execute(insert(grouping.table).from_select(list(grouping.table.columns.keys()), statement))
