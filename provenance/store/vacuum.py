"""Gives back the room of what was removed from a store, and updates the database's statistics."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
from sqlalchemy import Engine, text

from chimbuko.core.errors import StoreError
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.tables import SCHEMA
from chimbuko.provenance.store.urls import public_url

ROOM = 2.0
"""Room that SQLite needs for it, as a multiple of the database: a copy, and a log of the copying back."""


class Vacuumed(msgspec.Struct, frozen=True):
    """What the tables of a store took, with all runs in it."""

    store: str
    bytes_before: int
    bytes_after: int


def vacuum(engine: Engine) -> Vacuumed:
    """Vacuum the tables of a store that was opened for writing.

    Raises
    ------
    StoreError
        Others use the store, or there is not enough room on its disk; it is as it was.
    """
    work = _vacuum_sqlite if engine.dialect.name == "sqlite" else _vacuum_postgresql
    with store_errors(engine):
        before, after = work(engine)
    return Vacuumed(public_url(engine.url), before, after)


def _vacuum_sqlite(engine: Engine) -> tuple[int, int]:
    path = Path(engine.url.database or "").absolute()
    before = path.stat().st_size
    free = shutil.disk_usage(path.parent).free
    if free < ROOM * before:
        raise StoreError(
            f"{path}: a vacuum takes {ROOM * before / 1e6:.1f} MB on its disk, where {free / 1e6:.1f} MB are "
            "free; make room there"
        )
    # The copy goes where the room was found, and not onto a small /tmp or into memory.
    os.environ["SQLITE_TMPDIR"] = str(path.parent)
    with engine.connect() as connection:
        # An engine of ours begins transactions by itself, and a vacuum cannot be in one.
        for statement in ("COMMIT", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            connection.exec_driver_sql(statement)
    return before, path.stat().st_size


def _vacuum_postgresql(engine: Engine) -> tuple[int, int]:
    names = list(SCHEMA.tables)
    size = text(
        "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(CAST(:names AS text[])) AS name"
    )
    with engine.connect() as any_connection:
        connection = any_connection.execution_options(isolation_level="AUTOCOMMIT")
        before = connection.execute(size, {"names": names}).scalar_one()
        connection.exec_driver_sql(f"VACUUM (ANALYZE) {', '.join(names)}")
        return int(before), int(connection.execute(size, {"names": names}).scalar_one())
