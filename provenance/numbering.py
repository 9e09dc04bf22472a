"""Numbers for what a run names again and again: functions and texts, each kept once and numbered from 0.

Numbers grow without gaps, so whoever has read some needs to read only what came since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Table, select

from chimbuko.errors import StoreError


class Numbering:
    """The writer's side: gives a number to what has none. There is one writer per run.

    Parameters
    ----------
    table
        Run, number, and then the columns that make up a value.
    run
        The run's number.
    """

    def __init__(self, table: Table, run: int) -> None:
        self._table = table
        self._run = run
        self._numbers: dict[tuple[Any, ...], int] | None = None

    def of(self, connection: Connection, values: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
        """Value to number, of these values and others; those that are new are written."""
        if self._numbers is None:
            self._numbers = self._stored(connection)
        numbers = self._numbers
        new = sorted(set(values) - numbers.keys())
        if new:
            names = self._table.columns.keys()
            rows = [(self._run, number, *value) for number, value in enumerate(new, len(numbers))]
            connection.execute(self._table.insert(), [dict(zip(names, row, strict=True)) for row in rows])
            numbers.update((row[2:], row[1]) for row in rows)
        return numbers

    def _stored(self, connection: Connection) -> dict[tuple[Any, ...], int]:
        statement = select(*list(self._table.columns)[1:]).where(self._table.c.run == self._run)
        return {tuple(value): number for number, *value in connection.execute(statement)}


class NumberedNames(dict[int, str]):
    """The reader's side: number to name, asked of the store when a number is new.

    Parameters
    ----------
    read
        Gives (number, name) of all from a number on.
    """

    def __init__(self, read: Callable[[int], Sequence[tuple[int, str]]]) -> None:
        self._read = read

    def __missing__(self, number: int) -> str:
        self.refresh()
        if number not in self:
            raise StoreError(f"not a usable database (number {number} has no name); restore it from a copy")
        return self[number]

    def refresh(self) -> None:
        """Take in what is new."""
        self.update(self._read(len(self)))
