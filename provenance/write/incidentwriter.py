"""Writes incidents with their calls, recurring findings, and findings in published quantities."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter

import msgspec
from sqlalchemy import Connection, delete, select

from chimbuko.causes.incident import Incident, incident_id
from chimbuko.causes.incidents.sentence import recurrence_sentence, sentence
from chimbuko.causes.incidents.tracker import Changes
from chimbuko.causes.recurrence import Recurrence, recurrence_id
from chimbuko.causes.wording import BOUNDS
from chimbuko.core.unpacking import unpacked
from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding
from chimbuko.provenance.store.encode import CALL_KEY
from chimbuko.provenance.store.statements import Change, Upsert, insert, placeholder
from chimbuko.provenance.store.tables import CALLS, INCIDENTS, METRIC_FINDINGS, RECURRENCES

UNKNOWN = -1
"""Number in place of a rank or function that is not known."""
MOST_WAITED = 1000
"""Most waiting calls that are kept in the details of an incident, the most costly; all have its id."""

FunctionNumbers = Mapping[tuple[int, str], int]
"""Numbers of functions by (program, name)."""

_WRITE = Upsert.of_all(INCIDENTS)
_CHANGE_MEMBERS = Change(CALLS, ("incident_id",), CALL_KEY)


def write_changes(connection: Connection, run: int, changes: Changes, numbers: FunctionNumbers) -> None:
    """Write what has changed in a run's incidents."""
    _WRITE.write(connection, [_row(run, one, numbers) for one in changes.incidents])
    _mark(connection, run, "merged_into", list(changes.merged.items()))
    _mark(connection, run, "is_gone", [(number, True) for number in changes.gone])
    _write_members(connection, run, changes.incident_of)


def withdraw(connection: Connection, run: int, known: Collection[int]) -> None:
    """Mark all incidents of a run but these, and those that are part of them, as having no flagged call."""
    columns = INCIDENTS.c
    numbers = select(columns.number).where(
        columns.run == run, columns.merged_into == 0, columns.is_gone.is_(False)
    )
    gone = set(connection.scalars(numbers)) - set(known)
    _mark(connection, run, "is_gone", [(number, True) for number in sorted(gone)])


def write_recurrences(
    connection: Connection, run: int, found: Sequence[Recurrence], numbers: FunctionNumbers
) -> list[RecurrenceSummary]:
    """Write all recurring findings of a run in place of those known before; a finding keeps its number.

    Return them as lists show them, the most costly first.
    """
    columns = RECURRENCES.c
    stored = select(columns.number, columns.details).where(columns.run == run)
    number_of = {_unpacked(packed).key: number for number, packed in connection.execute(stored)}
    new = itertools.count(max(number_of.values(), default=0) + 1)
    connection.execute(delete(RECURRENCES).where(columns.run == run))
    numbered = [(number_of.get(one.key) or next(new), recurrence_sentence(one), one) for one in found]
    rows = [
        (
            *(run, number, one.program, one.kind),
            numbers.get((one.program, one.function), UNKNOWN),
            *(one.calls, one.begin_us, one.end_us, one.cost_us, told, _packed(one)),
        )
        for number, told, one in numbered
    ]
    insert(connection, RECURRENCES, RECURRENCES.columns.keys(), rows)
    numbered.sort(key=lambda row: (-row[2].cost_us, row[0]))
    return [RecurrenceSummary(recurrence_id(number), told, one) for number, told, one in numbered]


def _row(run: int, one: Incident, functions: Mapping[tuple[int, str], int]) -> tuple[object, ...]:
    return (
        *(run, one.number, 0, False, one.program, one.kind),
        UNKNOWN if one.rank is None else one.rank,
        functions.get((one.program, one.function), UNKNOWN),
        *(one.call_id, one.begin_us, one.end_us, one.flags, one.ranks, one.cost_us, sentence(one)),
        _packed(msgspec.structs.replace(one, waited=one.waited[:MOST_WAITED])),
        BOUNDS.index(one.bound),
    )


def _mark(connection: Connection, run: int, column: str, marks: Sequence[tuple[int, int | bool]]) -> None:
    if marks:
        mark = placeholder(connection)
        statement = f"UPDATE incidents SET {column} = {mark} WHERE run = {mark} AND number = {mark}"
        connection.exec_driver_sql(statement, [(value, run, number) for number, value in marks])


def _write_members(connection: Connection, run: int, incident_of: Mapping[str, int]) -> None:
    rows = [
        (incident_id(number) if number else None, run, *map(int, call_id.split(":")))
        for call_id, number in incident_of.items()
    ]
    # In the order in which writers change calls, so that nobody waits for who waits for him.
    _CHANGE_MEMBERS.write(connection, sorted(rows, key=itemgetter(slice(1, None))))


def _packed(value: msgspec.Struct) -> bytes:
    # Some 700 bytes: the tables of the default sizes take as long to set up as all the rest.
    packing = zlib.compressobj(wbits=12, memLevel=5)
    return packing.compress(msgspec.json.encode(value)) + packing.flush()


def _unpacked(packed: bytes) -> Recurrence:
    return msgspec.json.decode(unpacked(packed), type=Recurrence)


def write_metric_findings(connection: Connection, run: int, found: Sequence[Finding]) -> list[MetricFinding]:
    """Write the findings that a run does not have yet, and return them."""
    columns = METRIC_FINDINGS.c
    stored = connection.execute(select(columns.number, columns.details).where(columns.run == run)).all()
    known = {_finding_of(packed).key for _, packed in stored}
    new = {one.key: one for one in found if one.key not in known}
    first = max((number for number, _ in stored), default=0) + 1
    numbered = list(enumerate(new.values(), first))
    rows = [
        (run, number, one.kind.value, one.quantity, one.begin_us, one.found_us, one.sentence, _packed(one))
        for number, one in numbered
    ]
    insert(connection, METRIC_FINDINGS, METRIC_FINDINGS.columns.keys(), rows)
    return [MetricFinding(number, f"M{number}", one.sentence, one) for number, one in numbered]


def _finding_of(packed: bytes) -> Finding:
    return msgspec.json.decode(unpacked(packed), type=Finding)
