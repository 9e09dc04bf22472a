"""Transfers of whole runs: copied from store to store, renamed, removed; each in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, select, update

from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.tables import RUNS, SCHEMA
from chimbuko.provenance.store.urls import public_url

AT_ONCE = 2_000
"""Number of rows that are held in memory together: 1 MB of calls."""

TABLES_OF_RUNS = tuple(table for table in SCHEMA.sorted_tables if "run" in table.c)
"""Tables whose rows belong to a run."""


class AlreadyStored(ConfigError):
    """Refusal to copy a run into a store that holds it already."""


def copy_run(source: Engine, run_id: str, target: Engine) -> int:
    """Copy all that a store has of a run into another one, where the run gets a number of that store's, and
    no folder yet.

    All of it is read as of one moment. Return how many rows there were.

    Raises
    ------
    AlreadyStored
        The target holds the run, whoever copied it there.
    StoreError
        A store cannot be read or written, or the source has no such run; the target is as it was.
    """
    rows = 0
    with _snapshot(source) as reading:
        run = reading.execute(select(*RUNS.c).where(RUNS.c.id == run_id)).mappings().one_or_none()
        if run is None:
            raise _no_run(source, run_id)
        with store_errors(target), target.begin() as writing:
            number = _insert_run(writing, dict(run))
            for table in TABLES_OF_RUNS:
                for some in _rows(reading, table, run["number"]):
                    writing.execute(table.insert(), [row | {"run": number} for row in some])
                    rows += len(some)
    return rows


def rename_run(engine: Engine, run_id: str, name: str) -> None:
    """Give a run another name.

    Raises
    ------
    StoreError
        The store cannot be written, or has no such run.
    """
    with store_errors(engine), engine.begin() as connection:
        if not connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(name=name)).rowcount:
            raise _no_run(engine, run_id)


def remove_run(engine: Engine, run_id: str, folder: Path | None = None) -> bool:
    """Remove all that a store has of a run, and return whether it had any.

    Parameters
    ----------
    folder
        Folder that says it is that of the run; None if somebody names the run in the store.

    Raises
    ------
    ConfigError
        The store names another folder for the run.
    StoreError
        The store cannot be written; it is as it was.
    """
    with store_errors(engine), engine.begin() as connection:
        found = connection.execute(select(RUNS.c.number, RUNS.c.folder).where(RUNS.c.id == run_id)).first()
        if found is None:
            return False
        number, noted = found
        if folder is not None and noted != str(folder.resolve()):
            where = public_url(engine.url)
            raise ConfigError(
                f"{folder}: the rows of run {run_id} in {where} are those of {noted or 'an unknown folder'}; "
                f"if it was moved, delete them first: chimbuko runs delete --store {where} {run_id}"
            )
        for table in TABLES_OF_RUNS:
            connection.execute(delete(table).where(table.c.run == number))
        connection.execute(delete(RUNS).where(RUNS.c.number == number))
    return True


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Connection]:
    """Open a connection that sees a store as it is now, whatever is written meanwhile."""
    options = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with store_errors(engine), engine.connect() as connection:
        yield connection.execution_options(yield_per=AT_ONCE, **options)


def _rows(connection: Connection, table: Table, run: int) -> Iterator[list[dict[str, Any]]]:
    """Yield a table's rows of a run, some at a time, without the numbers that a store gives to its rows."""
    columns = [column for column in table.columns if column is not table.autoincrement_column]
    statement = select(*columns).where(table.c.run == run).order_by(*table.primary_key)
    with store_errors(connection.engine):
        for rows in connection.execute(statement).mappings().partitions():
            yield [dict(row) for row in rows]


def _insert_run(connection: Connection, run: dict[str, Any]) -> int:
    stored = connection.execute(select(RUNS.c.name).where(RUNS.c.id == run["id"])).scalar()
    if stored is not None:
        where = public_url(connection.engine.url)
        raise AlreadyStored(f"{where}: holds the run {run['id']} already, under the name {stored!r}")
    del run["number"], run["folder"]
    key = connection.execute(RUNS.insert().values(run)).inserted_primary_key
    assert key is not None
    number: int = key[0]
    return number


def _no_run(engine: Engine, run_id: str) -> StoreError:
    return StoreError(f"{public_url(engine.url)}: holds no run {run_id!r}")
