"""Numbering of what a run names again and again: functions, texts and call paths, each kept once.

Numbers begin at 0 and grow without gaps, so a reader that has read some reads only what came since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, select

from chimbuko.core.errors import StoreError
from chimbuko.provenance.store.statements import Turn, insert, take_turn
from chimbuko.provenance.store.tables import PATHS

RANK_PATH = np.dtype([("path", np.int32), ("calls", np.int64), ("exclusive_us", np.float64)])
"""Row with the calls of one call path on one rank, and their time all together; or of one of its threads,
where ``calls`` has ``1 + thread`` in the bits from ``THREAD_BIT`` on."""
THREAD_BIT = 40
"""Calls of a rank stay below 2 ** 40: at 40 ns each they take twelve hours of a core."""
NO_PATH = -1
"""Number in place of a call path that is not there, or not known."""


Transaction = Callable[[], AbstractContextManager[Connection]]
"""Function that begins a transaction of a writer."""


class Numbering:
    """Numbering by a writer: gives a number to what has none, in a transaction of its own, as several writers
    of a run may name the same.

    Parameters
    ----------
    table
        Table of run, number, and the columns that make up a value.
    run
        The run's number.
    """

    def __init__(self, table: Table, run: int, transaction: Transaction) -> None:
        self._table = table
        self._run = run
        self._transaction = transaction
        self._numbers: dict[tuple[Any, ...], int] = {}

    def of(self, values: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
        """Return the number of each value, of these values and others; those that are new are written.

        No transaction of this writer may be open.
        """
        numbers = self._numbers
        new = set(values) - numbers.keys()
        if new:
            with self._transaction() as connection:
                take_turn(connection, self._run, Turn.NAMES)
                numbers.update(self._others(connection, len(numbers)))
                names = self._table.columns.keys()
                rows = [
                    (self._run, number, *value)
                    for number, value in enumerate(sorted(new - numbers.keys()), len(numbers))
                ]
                insert(connection, self._table, names, rows)
            numbers.update((row[2:], row[1]) for row in rows)
        return numbers

    def _others(self, connection: Connection, first: int) -> dict[tuple[Any, ...], int]:
        """Return what other writers, or earlier ones, have numbered from a number on."""
        columns = self._table.c
        statement = select(*list(self._table.columns)[1:])
        found = connection.execute(statement.where(columns.run == self._run, columns.number >= first))
        return {tuple(value): number for number, *value in found}


def path_key(functions: Sequence[int]) -> bytes:
    """Return a call path as ``PathNumbering`` takes it, from its functions' numbers, outermost first."""
    return np.array(functions[::-1], np.int32).tobytes()


class PathNumbering:
    """Numbering of call paths by a writer; those that are new are written with all that lead to them.

    Parameters
    ----------
    run
        The run's number.
    """

    def __init__(self, run: int, transaction: Transaction) -> None:
        self._run = run
        self._transaction = transaction
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._known: dict[tuple[int, bytes], int] = {}

    def of(self, paths: Iterable[tuple[int, bytes]]) -> dict[tuple[int, bytes], int]:
        """Return the number of each path, of these and others; -1 for an empty one.

        No transaction of this writer may be open.

        Parameters
        ----------
        paths
            (program, i4[depth] as bytes): the store's numbers of functions, innermost first as in a record.
        """
        new = set(paths) - self._known.keys()
        if new:
            with self._transaction() as connection:
                take_turn(connection, self._run, Turn.NAMES)
                numbers = self._numbers | self._others(connection, len(self._numbers))
                new_rows: list[tuple[int, ...]] = []
                found = {path: self._number(numbers, *path, new_rows) for path in sorted(new)}
                insert(connection, PATHS, PATHS.columns.keys(), new_rows)
            self._numbers = numbers
            self._known.update(found)
        return self._known

    def _number(
        self,
        numbers: dict[tuple[int, int, int], int],
        program: int,
        functions: bytes,
        new_rows: list[tuple[int, ...]],
    ) -> int:
        number = NO_PATH
        for depth, function in enumerate(np.frombuffer(functions, np.int32)[::-1].tolist()):
            key = (program, number, function)
            if key not in numbers:
                numbers[key] = len(numbers)
                new_rows.append((self._run, numbers[key], *key, depth))
            number = numbers[key]
        return number

    def _others(self, connection: Connection, first: int) -> dict[tuple[int, int, int], int]:
        """Return what other writers, or earlier ones, have numbered from a number on."""
        path = PATHS.c
        statement = select(path.program, path.parent, path.function, path.number)
        rows = connection.execute(statement.where(path.run == self._run, path.number >= first))
        return {(row[0], row[1], row[2]): row[3] for row in rows}


class NumberedNames(dict[int, str]):
    """Names by number for a reader, which are read from the store when a number is new.

    Parameters
    ----------
    read
        Returns (number, name) of all from a number on.
    """

    def __init__(self, read: Callable[[int], Sequence[tuple[int, str]]]) -> None:
        self._read = read

    def __missing__(self, number: int) -> str:
        self.refresh()
        if number not in self:
            raise StoreError(f"not a usable database (number {number} has no name); restore it from a copy")
        return self[number]

    def refresh(self) -> None:
        """Read the names that are new."""
        self.update(self._read(len(self)))
