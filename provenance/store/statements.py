"""SQL statements for both databases: insert, replace, change, add to and find rows by their keys, many at
once by COPY into PostgreSQL.

Tuples with the driver's own SQL are twice as fast as dicts through SQLAlchemy (10,600 against 5,600
anomalies/s on SQLite), and both databases take the same statements.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, exc

# Many rows at once into PostgreSQL, by COPY.
#
# A row takes a tenth of the client's time that it takes otherwise, and half of the server's. Rows that may
# be there already go into a temporary table, and from there in one statement.


LEAST_ROWS = 20
"""Fewest rows for which COPY takes less time: it takes three round trips more."""
_TYPES = {"JSON": "text"}
"""Types as which values are sent, where those of columns would encode them once more."""
_MAY_STAGE = "chimbuko may stage"


def copies(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Return whether these rows are to be copied into a database."""
    return len(rows) >= LEAST_ROWS and connection.dialect.name == "postgresql"


def copy_rows(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    rows: Iterable[tuple[Any, ...]],
    into: str = "",
) -> None:
    """Copy rows into a table, or into another one of the same columns."""
    named = ", ".join(f'"{name}"' for name in columns)
    statement = f"COPY {into or table.name} ({named}) FROM STDIN (FORMAT BINARY)"
    kinds = (str(table.c[name].type.compile(connection.dialect)) for name in columns)
    driver: Any = connection.connection.driver_connection
    dbapi: Any = connection.dialect.dbapi
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_TYPES.get(kind, kind.lower()) for kind in kinds])
            for row in rows:
                copy.write_row(row)
    except dbapi.Error as error:
        is_lost = connection.dialect.is_disconnect(error, driver, None)
        raise exc.DBAPIError.instance(
            statement, None, error, dbapi.Error, connection_invalidated=is_lost, dialect=connection.dialect
        ) from error


def may_stage(connection: Connection) -> bool:
    """Return whether temporary tables can be made in this database."""
    if _MAY_STAGE not in connection.info:
        asked = "SELECT has_database_privilege(current_database(), 'TEMP')"
        connection.info[_MAY_STAGE] = connection.exec_driver_sql(asked).scalar_one()
    return bool(connection.info[_MAY_STAGE])


def stage(
    connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> str:
    """Copy rows into a temporary table of some columns of a table, and return its name."""
    named = ", ".join(f'"{column}"' for column in columns)
    name = f"staged_{table.name}_{zlib.crc32(named.encode()):x}"
    # In each transaction anew: one that is rolled back takes it along.
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} ON COMMIT DELETE ROWS AS "
        f"SELECT {named} FROM {table.name} WITH NO DATA"
    )
    connection.exec_driver_sql(f"DELETE FROM {name}")
    copy_rows(connection, table, columns, rows, name)
    return name


class Turn(IntEnum):
    """Part of a run's rows that one transaction at a time writes."""

    NAMES = 0
    """Numbers of functions, texts and call paths."""
    SUMS = 1
    """Sums over all ranks."""
    WRITERS = 2
    """Rows of the only writer, or of the first of several; the others follow."""


_TURNS = 0x63680000
"""First of the numbers under which PostgreSQL keeps these locks; the run's number goes with it."""


def take_turn(connection: Connection, run: int, turn: int) -> None:
    """Wait until no other transaction has this turn, and keep it until the end of this one.

    All transactions of SQLite that write wait for each other anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s, %s)", (_TURNS + turn, run))


class Upsert(msgspec.Struct, frozen=True):
    """Statement that inserts rows into a table, or replaces those of the same key."""

    table: Table
    columns: tuple[str, ...]
    """Columns of a row, in order."""
    key: tuple[str, ...]
    newer: tuple[str, ...] = ()
    """Columns that decide: a row is replaced only by one with higher values, in this order. Without any it
    always is."""

    @classmethod
    def of_all(cls, table: Table, *newer: str) -> Upsert:
        """Return the statement for all columns, by primary key."""
        return cls(table, tuple(table.columns.keys()), tuple(table.primary_key.columns.keys()), newer)

    def write(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write all rows in one go."""
        changed = [f'"{name}" = excluded."{name}"' for name in self.columns if name not in self.key]
        theirs, ours = (
            ", ".join(f'{row}."{name}"' for name in self.newer) for row in ("excluded", self.table.name)
        )
        condition = f" WHERE ({theirs}) > ({ours})" if self.newer else ""
        conflict = f" ON CONFLICT ({_list(self.key)}) DO UPDATE SET {', '.join(changed)}{condition}"
        _insert(connection, self.table, self.columns, self._newest(rows), conflict)

    def _newest(self, rows: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
        """Return one row of each key: a single statement must not change a row twice."""
        key, age = ([self.columns.index(name) for name in names] for names in (self.key, self.newer))
        newest: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for row in rows:
            place = tuple(row[at] for at in key)
            before = newest.get(place)
            if before is None or not age or [row[at] for at in age] > [before[at] for at in age]:
                newest[place] = row
        return list(newest.values())


class Accumulate(msgspec.Struct, frozen=True):
    """Statement that inserts rows of sums into a table, or adds them to those of the same key."""

    table: Table
    highest: tuple[str, ...] = ()
    """Columns of which the highest value stays; those that stand in neither list are added up."""
    lowest: tuple[str, ...] = ()

    def write(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add all rows in one go; they have all columns."""
        columns, key = (list(names.keys()) for names in (self.table.columns, self.table.primary_key.columns))
        merged = [f'"{name}" = {self._merged(name)}' for name in columns if name not in key]
        conflict = f" ON CONFLICT ({_list(key)}) DO UPDATE SET {', '.join(merged)}"
        _insert(connection, self.table, columns, rows, conflict)

    def _merged(self, name: str) -> str:
        ours, theirs = f'{self.table.name}."{name}"', f'excluded."{name}"'
        if name not in self.highest + self.lowest:
            return f"{ours} + {theirs}"
        comparison = ">" if name in self.highest else "<"
        return f"CASE WHEN {theirs} {comparison} {ours} THEN {theirs} ELSE {ours} END"


class Change(msgspec.Struct, frozen=True):
    """Statement that changes columns of rows that exist."""

    table: Table
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def write(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Change all rows in one go; each has the new values and then the key, which no other row has."""
        if not rows:
            return
        if copies(connection, rows) and may_stage(connection):
            staged = stage(connection, self.table, (*self.columns, *self.key), rows)
            changed = ", ".join(f'"{name}" = s."{name}"' for name in self.columns)
            same = " AND ".join(f't."{name}" = s."{name}"' for name in self.key)
            connection.exec_driver_sql(
                f"UPDATE {self.table.name} AS t SET {changed} FROM {staged} AS s WHERE {same}"
            )
            return
        mark = placeholder(connection)
        changed = ", ".join(f'"{name}" = {mark}' for name in self.columns)
        same = " AND ".join(f'"{name}" = {mark}' for name in self.key)
        connection.exec_driver_sql(f"UPDATE {self.table.name} SET {changed} WHERE {same}", list(rows))


def insert(
    connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Write rows that are new."""
    _insert(connection, table, columns, rows, "")


def _insert(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    conflict: str,
) -> None:
    if copies(connection, rows) and not conflict:
        copy_rows(connection, table, columns, rows)
    elif copies(connection, rows) and may_stage(connection):
        staged = stage(connection, table, columns, rows)
        named = _list(columns)
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({named}) SELECT {named} FROM {staged}{conflict}"
        )
    elif rows:
        values = ", ".join([placeholder(connection)] * len(columns))
        statement = f"INSERT INTO {table.name} ({_list(columns)}) VALUES ({values}){conflict}"
        connection.exec_driver_sql(statement, list(rows))


def placeholder(connection: Connection) -> str:
    """Return the sign that stands for a value in a statement."""
    return "?" if connection.dialect.name == "sqlite" else "%s"


def _list(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


AT_ONCE = 500
"""Most keys in one statement: a database takes 32,766 parameters."""


def rows_of(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    run: int,
    key: Sequence[str],
    wanted: Iterable[tuple[int, ...]],
    are_to_change: bool = False,
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a run whose columns ``key`` have one of the values ``wanted``, as ``columns``.

    One statement for many keys takes 5 µs a key; one for each takes ten times as long.

    Parameters
    ----------
    are_to_change
        Whether this transaction will change them, so that others have to wait.
    """
    sign = placeholder(connection)
    names = ", ".join(f't."{name}"' for name in columns)
    one = "(" + ", ".join([sign] * len(key)) + ")"
    same = " AND ".join(f't."{name}" = k.column{number}' for number, name in enumerate(key, 1))
    ordered = sorted(wanted)
    for first in range(0, len(ordered), AT_ONCE):
        keys = ordered[first : first + AT_ONCE]
        statement = (
            f"SELECT {names} FROM (VALUES {', '.join([one] * len(keys))}) AS k "
            f"JOIN {table.name} AS t ON t.run = {sign} AND {same}"
        )
        if are_to_change and connection.dialect.name == "postgresql":
            statement += " FOR UPDATE OF t"
        parameters = (*(value for values in keys for value in values), run)
        yield from (tuple(row) for row in connection.exec_driver_sql(statement, parameters))
