"""Lists of the incidents and the recurring findings of a run."""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar

import msgspec
from sqlalchemy import ColumnElement, and_, func, not_, or_, select

from chimbuko.causes.incident import Incident, incident_id
from chimbuko.causes.part import HELD_UP
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind, recurrence_id
from chimbuko.causes.wording import BOUNDS, Bound
from chimbuko.core.errors import ConfigError
from chimbuko.core.unpacking import unpacked
from chimbuko.provenance.incidents.marks import Mark, MarkState, marks_of, remove_mark, write_mark
from chimbuko.provenance.query.names import is_current
from chimbuko.provenance.query.rows import AnyRow
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.provenance.store.tables import CALLS, INCIDENTS, RECURRENCES
from chimbuko.runtime.runs.directory import RunDirectory

IncidentSort = Literal["cost_us", "begin_us"]
# Made once, while this module is loaded by one thread: a dashboard has died within msgspec, once, while its
# threads decoded incidents for the first time.
_incidents = msgspec.json.Decoder(Incident)
_recurrences = msgspec.json.Decoder(Recurrence)

READ_AT_ONCE = 500
"""Number of incidents read together with all that they held up: 10 MB where each held up a hundred calls."""
_ID = re.compile(r"I(\d{1,9})", re.ASCII)
_RECURRENCE_ID = re.compile(r"R\d{1,9}", re.ASCII)


class IncidentSummary(msgspec.Struct, frozen=True):
    """Incident as lists show it. Times are µs since the Unix epoch on the trace's clock."""

    id: str
    program: int
    kind: str
    """Main cause of the delay."""
    rank: int | None
    """Rank on which the delay was; None if that is not known."""
    function: str
    """Function in which the delay was; empty if that is not known."""
    call_id: str
    """Id of the call that was delayed; empty if it is not on record."""
    begin_us: int
    end_us: int
    flags: int
    ranks: int
    """Number of ranks that lost time."""
    cost_us: float
    """Core time lost on all ranks."""
    sentence: str
    bound: Bound = Bound.EXACT
    mark: str = ""
    """State by its mark, as ``MarkState`` has them; empty without one."""
    note: str = ""
    marked_by: str = ""


class IncidentDetails(msgspec.Struct, frozen=True):
    """Incident with its causes and all that it held up."""

    summary: IncidentSummary
    is_gone: bool
    """Whether the final judgement has left none of its calls abnormal."""
    incident: Incident


class RecurrenceSummary(msgspec.Struct, frozen=True):
    """Recurring finding: what costs time again and again."""

    id: str
    sentence: str
    recurrence: Recurrence
    mark: str = ""
    """State by its mark, as ``MarkState`` has them; empty without one."""
    note: str = ""
    marked_by: str = ""


class IncidentPage(msgspec.Struct, frozen=True):
    """Page of a list of incidents."""

    incidents: list[IncidentSummary]
    total: int
    """Number of incidents in the whole list."""
    cost_us: float
    """Core time that all incidents of the list cost."""
    bound: Bound = Bound.EXACT


def is_incident_id(text: str) -> bool:
    """Whether a text has the form of an incident's id, which no call has."""
    return _ID.fullmatch(text) is not None


def is_recurrence_id(text: str) -> bool:
    """Whether a text has the form of the id of a recurring finding."""
    return _RECURRENCE_ID.fullmatch(text) is not None


class Incidents:
    """Incidents of a run."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    def page(
        self,
        limit: int = 50,
        offset: int = 0,
        sort: IncidentSort = "cost_us",
        with_short: bool = False,
        with_ignored: bool = True,
        times: tuple[int, int] | None = None,
    ) -> IncidentPage:
        """Return a page of the list, the most costly or the first in time first.

        Parameters
        ----------
        with_short
            Whether short delays that are reported together, as interruptions, are listed, too.
        with_ignored
            Whether incidents that are marked as ignored are listed, too.
        times
            Begin and end, in µs since the epoch, of the time in which incidents are wanted; None for all.
        """
        marks = marks_of(self._reader)
        shown = self._condition(with_short)
        if times is not None:
            shown = and_(shown, INCIDENTS.c.begin_us <= times[1], INCIDENTS.c.end_us >= times[0])
        if not with_ignored:
            shown = and_(shown, INCIDENTS.c.number.not_in(_ignored(marks)))
        column = INCIDENTS.c[sort]
        order = (column.desc() if sort == "cost_us" else column.asc(), INCIDENTS.c.number)
        rows = self._reader.rows(select(*_SHOWN).where(shown).order_by(*order).limit(limit).offset(offset))
        columns = INCIDENTS.c
        sums = select(func.count(), func.coalesce(func.sum(columns.cost_us), 0.0), func.max(columns.bound))
        ((total, cost_us, bound),) = self._reader.rows(sums.where(shown))
        listed = [marked(self._summary(row), marks) for row in rows]
        return IncidentPage(listed, int(total), float(cost_us), BOUNDS[bound or 0])

    def one(self, wanted: str) -> IncidentDetails:
        """Return an incident by its id; where it became part of another, return that one.

        Raises
        ------
        ConfigError
            The run has no such incident.
        """
        match = _ID.fullmatch(wanted)
        number = int(match[1]) if match else 0
        columns = (*_SHOWN, INCIDENTS.c.merged_into, INCIDENTS.c.is_gone, INCIDENTS.c.details)
        statement = select(*columns).where(INCIDENTS.c.run == self._reader.run)
        seen = set()
        while rows := self._reader.rows(statement.where(INCIDENTS.c.number == number)):
            row = rows[0]
            seen.add(number)
            if not row.merged_into or row.merged_into in seen:
                summary = marked(self._summary(row), marks_of(self._reader))
                return IncidentDetails(summary, row.is_gone, _unpacked(row.details))
            number = row.merged_into
        raise ConfigError(f"incident {wanted!r}: not in this run; 'chimbuko incidents' lists those that are")

    def each(self) -> Iterator[IncidentDetails]:
        """Yield all incidents of the run with their causes, by number, also short delays."""
        columns = INCIDENTS.c
        statement = select(*_SHOWN, columns.details).where(is_current(self._reader.run))
        after = 0
        while rows := self._reader.rows(
            statement.where(columns.number > after).order_by(columns.number).limit(READ_AT_ONCE)
        ):
            for row in rows:
                yield IncidentDetails(self._summary(row), False, _unpacked(row.details))
            after = rows[-1].number

    def recurrences(self) -> list[RecurrenceSummary]:
        """Return the recurring findings, the most costly first."""
        columns, marks = RECURRENCES.c, marks_of(self._reader)
        statement = select(columns.number, columns.sentence, columns.details).where(
            columns.run == self._reader.run
        )
        return [
            marked(
                RecurrenceSummary(
                    recurrence_id(row.number),
                    row.sentence,
                    _recurrences.decode(unpacked(row.details)),
                ),
                marks,
            )
            for row in self._reader.rows(statement.order_by(columns.cost_us.desc(), columns.number))
        ]

    def recurrence(self, wanted: str) -> RecurrenceSummary:
        """Return a recurring finding by its id.

        Raises
        ------
        ConfigError
            The run has no such finding.
        """
        for one in self.recurrences():
            if one.id == wanted:
                return one
        raise ConfigError(f"finding {wanted!r}: not in this run; 'chimbuko incidents' lists those that are")

    def of_calls(self) -> Iterator[tuple[str, int]]:
        """Yield the id of each call that belongs to an incident, with the number of that."""
        call = CALLS.c
        place = (call.program, call.rank, call.begin_step, call.begin_row)
        statement = select(*place, call.incident_id).where(
            call.run == self._reader.run, call.incident_id.is_not(None)
        )
        for *numbers, incident in self._reader.rows(statement):
            yield ":".join(map(str, numbers)), int(incident[1:])

    def of_nodes(self) -> list[Incident]:
        """Return the incidents in which nodes took time from ranks, in no single call."""
        statement = select(INCIDENTS.c.details).where(is_current(self._reader.run), _IS_LOSS)
        return [_unpacked(row.details) for row in self._reader.rows(statement)]

    def of_kind(self, kind: str) -> list[Incident]:
        """Return the incidents with a main cause, but for short delays that are reported together."""
        statement = select(INCIDENTS.c.details).where(self._condition(False), INCIDENTS.c.kind == kind)
        return [_unpacked(row.details) for row in self._reader.rows(statement)]

    def recent(self, length_us: int) -> list[Incident]:
        """Return the incidents that began within ``length_us`` before the end of the last one."""
        columns, current = INCIDENTS.c, is_current(self._reader.run)
        last_us = select(func.max(columns.end_us)).where(current).scalar_subquery()
        statement = select(columns.details).where(current, columns.begin_us >= last_us - length_us)
        return [_unpacked(row.details) for row in self._reader.rows(statement)]

    def last_number(self) -> int:
        """Return the number of the newest incident; 0 without any."""
        statement = select(func.max(INCIDENTS.c.number)).where(INCIDENTS.c.run == self._reader.run)
        return int(self._reader.rows(statement)[0][0] or 0)

    def _condition(self, with_short: bool) -> ColumnElement[bool]:
        columns = INCIDENTS.c
        is_told = is_current(self._reader.run)
        if with_short:
            return is_told
        short = [
            and_(
                columns.program == one.program,
                columns.flags == 1,
                columns.cost_us < one.longest_us,
                columns.kind.not_in(one.kinds_apart),
                columns.call != one.costliest,
                # A loss of a rank by its node is no single call, whatever was flagged in it.
                not_(_IS_LOSS),
            )
            for one in (found.recurrence for found in self.recurrences())
            if one.kind is RecurrenceKind.INTERRUPTIONS
        ]
        return and_(is_told, not_(or_(*short))) if short else is_told

    def _summary(self, row: AnyRow) -> IncidentSummary:
        names: dict[str, Any] = {
            name: getattr(row, name)
            for name in ("program", "kind", "begin_us", "end_us", "flags", "ranks", "cost_us", "sentence")
        }
        return IncidentSummary(
            id=incident_id(row.number),
            rank=None if row.rank < 0 else row.rank,
            function="" if row.function < 0 else self._reader.names.functions[row.function],
            call_id=row.call,
            bound=BOUNDS[row.bound],
            **names,
        )


_IS_LOSS = and_(INCIDENTS.c.call == "", INCIDENTS.c.kind.in_(sorted(HELD_UP)))
"""Condition that an incident's origin is no call but a loss of a rank: where the origin is not on record,
nobody knows that it was held up."""


Summary = TypeVar("Summary", IncidentSummary, RecurrenceSummary)


def marked(summary: Summary, marks: Mapping[str, Mark]) -> Summary:
    """Return a summary with its mark, if it has one."""
    mark = marks.get(summary.id)
    if mark is None:
        return summary
    return msgspec.structs.replace(summary, mark=mark.state.value, note=mark.note, marked_by=mark.author)


def set_mark(
    found: Incidents,
    run: RunDirectory,
    finding: str,
    state: MarkState | None,
    note: str = "",
    author: str = "",
) -> Mark | None:
    """Mark an incident or a recurring finding of a run; without a state, remove its mark.

    Parameters
    ----------
    found
        Incidents of this run.
    author
        Who marks it; by default the user.

    Raises
    ------
    ConfigError
        The run has no such finding, or the note is too long.
    StoreError
        The store cannot be written.
    """
    known = found.recurrence(finding) if is_recurrence_id(finding) else found.one(finding).summary
    info = run.read_info()
    url = run.used_store_url(info)
    if state is None:
        remove_mark(url, info.id, known.id)
        return None
    mark = Mark(known.id, state, note, author or getpass.getuser(), time.time_ns() // 1000)
    write_mark(url, info.id, mark)
    return mark


def _ignored(marks: Mapping[str, Mark]) -> list[int]:
    """Return the numbers of incidents that are ignored."""
    ignored = [finding for finding, mark in marks.items() if mark.state is MarkState.IGNORED]
    return [int(match[1]) for match in map(_ID.fullmatch, ignored) if match]


def _unpacked(details: bytes) -> Incident:
    return _incidents.decode(unpacked(details))


_SHOWN = tuple(
    INCIDENTS.c[name]
    for name in (
        *("number", "program", "kind", "rank", "function", "call", "begin_us", "end_us"),
        *("flags", "ranks", "cost_us", "sentence", "bound"),
    )
)
