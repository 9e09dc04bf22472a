"""Reader of the rows of one run in a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Engine, Table, select

from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.provenance.query.names import RunNames
from chimbuko.provenance.query.rows import AnyRow, AnySelect
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.tables import FUNCTIONS, RUNS
from chimbuko.provenance.store.urls import public_url
from chimbuko.runtime.runs.directory import RunInfo

StructType = TypeVar("StructType", bound=msgspec.Struct)


class RunReader:
    """Reader of what the store holds of one run, as it is committed at the time of asking.

    Parameters
    ----------
    engine
        Store, from ``open_for_reading``.
    run_id
        Id of the run; by default the newest in the store.

    Raises
    ------
    StoreError
        The store holds no run. All methods raise it where the store cannot be read.
    """

    def __init__(self, engine: Engine, run_id: str | None = None) -> None:
        self._engine = engine
        self.run_id = run_id if run_id is not None else self._newest_run()
        self._number: int | None = None
        self.names = RunNames(self.rows, lambda: self.run)

    def close(self) -> None:
        """Let go of the store."""
        self._engine.dispose()

    def info(self) -> RunInfo:
        """Return the description of the run, as last written.

        Raises
        ------
        ConfigError
            The store does not hold this run.
        """
        names = RunInfo.__struct_fields__
        rows = self.rows(select(*(RUNS.c[name] for name in names)).where(RUNS.c.id == self.run_id))
        if not rows:
            raise ConfigError(f"{public_url(self._engine.url)}: holds no run {self.run_id!r}")
        return msgspec.convert(dict(zip(names, rows[0], strict=True)), RunInfo)

    def _newest_run(self) -> str:
        rows = self.rows(select(RUNS.c.id).order_by(RUNS.c.started_us.desc()).limit(1))
        if not rows:
            raise StoreError(f"{public_url(self._engine.url)}: holds no run yet")
        return str(rows[0][0])

    @cached_property
    def detector(self) -> str:
        """Detector of the run, which stays the same."""
        return self.info().config.detector

    @property
    def run(self) -> int:
        """Number of the run in the store; -1 if it is not there, or not yet."""
        if self._number is None:
            rows = self.rows(select(RUNS.c.number).where(RUNS.c.id == self.run_id))
            self._number = int(rows[0][0]) if rows else None
        return -1 if self._number is None else self._number

    def function_number(self, program: int, function: str) -> int:
        """Return the number of a function; -1 if it has none."""
        columns = FUNCTIONS.c
        one = (columns.run == self.run, columns.program == program, columns.name == function)
        rows = self.rows(select(columns.number).where(*one))
        return int(rows[0][0]) if rows else -1

    def all(self, kind: type[StructType], table: Table, *conditions: ColumnElement[bool]) -> list[StructType]:
        """Return all rows of a table of this run, as structs with the same field names."""
        columns = [table.c[name] for name in kind.__struct_fields__]
        statement = select(*columns).where(table.c.run == self.run, *conditions)
        return [msgspec.convert(list(row), kind) for row in self.rows(statement.order_by(*table.primary_key))]

    def rows(self, statement: AnySelect) -> Sequence[AnyRow]:
        """Run a statement, and return its rows."""
        with self.connected() as connection:
            return connection.execute(statement).all()

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Open a connection to the store; raise ``StoreError`` for what fails there."""
        with store_errors(self._engine), self._engine.connect() as connection:
            yield connection

    @property
    def is_sqlite(self) -> bool:
        """Whether the store is a file of SQLite."""
        return self._engine.dialect.name == "sqlite"
