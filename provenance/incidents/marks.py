"""Marks: what somebody said of an incident or a recurring finding, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import msgspec
from sqlalchemy import Connection, delete, select

from chimbuko.causes.incident import incident_id
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.provenance.store.engine import close, open_for_writing, store_errors
from chimbuko.provenance.store.statements import Upsert
from chimbuko.provenance.store.tables import INCIDENTS, MARKS, RECURRENCES, RUNS

MOST_CHARACTERS = 2_000
"""Length of the longest note."""


class MarkState(StrEnum):
    """State in which a finding is by its mark."""

    KNOWN = "known"
    """Somebody looks after it: no alert is sent any more."""
    IGNORED = "ignored"
    """It is as it should be: no alert is sent, and comparisons leave it out."""
    NOTED = "noted"
    """There is a note, and nothing else follows."""


SILENT = (MarkState.KNOWN, MarkState.IGNORED)
"""States of findings of which no alert is sent."""


class Mark(msgspec.Struct, frozen=True):
    """Mark of an incident or a recurring finding."""

    finding: str
    """Id of the finding."""
    state: MarkState
    note: str
    author: str
    """Name of who marked it."""
    marked_us: int
    """Time of the mark, in µs since 1970."""


def marks_of(reader: RunReader) -> dict[str, Mark]:
    """Return the marks of a run by the ids of their findings.

    Those of an incident that became part of another stand under the id of that, too.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    columns = MARKS.c
    marks = {
        row.finding: Mark(row.finding, MarkState(row.state), row.note, row.author, row.marked_us)
        for row in reader.rows(select(MARKS).where(columns.run == reader.run).order_by(columns.marked_us))
    }
    if not any(finding.startswith("I") for finding in marks):
        return marks
    part_of = _merged(reader)
    for finding, mark in list(marks.items()):
        number, seen = int(finding[1:]), set()
        while finding.startswith("I") and number in part_of and number not in seen:
            seen.add(number)
            number = part_of[number]
            marks.setdefault(incident_id(number), mark)
    return marks


def _merged(reader: RunReader) -> dict[int, int]:
    """Return the incident that others became part of, by their numbers."""
    columns = INCIDENTS.c
    statement = select(columns.number, columns.merged_into).where(
        columns.run == reader.run, columns.merged_into != 0
    )
    return {row.number: row.merged_into for row in reader.rows(statement)}


def silent_functions(reader: RunReader, marks: dict[str, Mark]) -> set[tuple[int, str]]:
    """Return the functions, by program and name, of whose recurring findings no alert is sent.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    silent = [finding for finding, mark in marks.items() if mark.state in SILENT]
    numbers = [int(finding[1:]) for finding in silent if finding.startswith("R")]
    if not numbers:
        return set()
    columns = RECURRENCES.c
    statement = select(columns.program, columns.function).where(
        columns.run == reader.run, columns.number.in_(numbers), columns.function >= 0
    )
    return {(row.program, reader.names.functions[row.function]) for row in reader.rows(statement)}


_WRITE = Upsert.of_all(MARKS)


def write_mark(url: str, run_id: str, mark: Mark) -> None:
    """Write the mark of a finding into a store, in place of the one that it has.

    Raises
    ------
    ConfigError
        The note is too long.
    StoreError
        The store cannot be written.
    """
    if len(mark.note) > MOST_CHARACTERS:
        raise ConfigError(f"note of {mark.finding}: longer than {MOST_CHARACTERS:,} characters")
    with _writing(url, run_id) as (connection, run):
        row = (run, mark.finding, mark.state.value, mark.note, mark.author, mark.marked_us)
        _WRITE.write(connection, [row])


def remove_mark(url: str, run_id: str, finding: str) -> None:
    """Remove the mark of a finding from a store, if it has one.

    Raises
    ------
    StoreError
        The store cannot be written.
    """
    with _writing(url, run_id) as (connection, run):
        connection.execute(delete(MARKS).where(MARKS.c.run == run, MARKS.c.finding == finding))


@contextmanager
def _writing(url: str, run_id: str) -> Iterator[tuple[Connection, int]]:
    """Open a transaction, which the run's writer waits for a few ms; give the run's number, too."""
    engine = open_for_writing(url)
    try:
        with store_errors(engine), engine.begin() as connection:
            yield (
                connection,
                connection.execute(select(RUNS.c.number).where(RUNS.c.id == run_id)).scalar_one(),
            )
    finally:
        close(engine)
