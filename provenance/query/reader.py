"""A run in a store, and how it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Self, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Engine, Table, select

from chimbuko.errors import ConfigError, StoreError
from chimbuko.provenance.query.names import RunNames
from chimbuko.provenance.query.rows import AnyRow, AnySelect
from chimbuko.provenance.store.engine import public_url, store_errors
from chimbuko.provenance.store.tables import RUNS
from chimbuko.runs.directory import RunInfo

StructType = TypeVar("StructType", bound=msgspec.Struct)


class Questions:
    """The provenance of one run; each question is answered from what is committed when it is asked.

    Parameters
    ----------
    engine
        A store, from ``open_for_reading``.
    run_id
        The run; by default the newest in the store.

    Raises
    ------
    StoreError
        The store holds no run. All methods raise it where the store cannot be read.
    """

    def __init__(self, engine: Engine, run_id: str | None = None) -> None:
        self._engine = engine
        self.run_id = run_id if run_id is not None else self._newest_run()
        self._number: int | None = None
        self._names = RunNames(self._rows, lambda: self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self._engine.dispose()

    def run(self) -> RunInfo:
        """What the run was, as last written.

        Raises
        ------
        ConfigError
            The store does not hold this run.
        """
        names = RunInfo.__struct_fields__
        rows = self._rows(select(*(RUNS.c[name] for name in names)).where(RUNS.c.id == self.run_id))
        if not rows:
            raise ConfigError(f"{public_url(self._engine.url)}: holds no run {self.run_id!r}")
        return msgspec.convert(dict(zip(names, rows[0], strict=True)), RunInfo)

    def _newest_run(self) -> str:
        rows = self._rows(select(RUNS.c.id).order_by(RUNS.c.started_us.desc()).limit(1))
        if not rows:
            raise StoreError(f"{public_url(self._engine.url)}: holds no run yet")
        return str(rows[0][0])

    @cached_property
    def _detector(self) -> str:
        """The run's; it stays the same."""
        return self.run().config.detector

    @property
    def _run(self) -> int:
        """The run's number in the store; -1 where it is not there, or not yet."""
        if self._number is None:
            rows = self._rows(select(RUNS.c.number).where(RUNS.c.id == self.run_id))
            self._number = int(rows[0][0]) if rows else None
        return -1 if self._number is None else self._number

    def _all(
        self, kind: type[StructType], table: Table, *conditions: ColumnElement[bool]
    ) -> list[StructType]:
        """All rows of a table of this run, as structs with the same field names."""
        columns = [table.c[name] for name in kind.__struct_fields__]
        statement = select(*columns).where(table.c.run == self._run, *conditions)
        return [
            msgspec.convert(list(row), kind) for row in self._rows(statement.order_by(*table.primary_key))
        ]

    def _rows(self, statement: AnySelect) -> Sequence[AnyRow]:
        with store_errors(self._engine), self._engine.connect() as connection:
            return connection.execute(statement).all()
