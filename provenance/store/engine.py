"""Opens the provenance store: SQLite by default, PostgreSQL by URL."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy
from sqlalchemy import URL, Connection, Engine, FromClause, event, exc
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler

from chimbuko.core.errors import StoreError
from chimbuko.provenance.store.tables import FIRST_RELEASE, MIGRATIONS, SCHEMA_VERSION, make_tables
from chimbuko.provenance.store.urls import is_sqlite, parsed_url, path_of, public_url

BUSY_TIMEOUT_S = 5.0
"""Time that a statement waits for another connection's transaction on SQLite."""

CONNECT_TIMEOUT_S = 10
"""Time to wait for a PostgreSQL server to answer."""

_DAMAGE = "not a database", "malformed"
"""Words of SQLite about a file that is no database, or not a whole one."""

_UNIQUE_VIOLATION = "23505"
"""Code of PostgreSQL's error about a key that is there already."""

_MIGRATION_LOCK = 0x6368696D
"""Number of the PostgreSQL lock under which one process at a time makes or changes the tables."""


class StoreBusy(StoreError):
    """Error of a store that cannot be used now, but may be later: locked, full, or its server is away."""


class StoreRefused(StoreError):
    """Error of a write that holds a value which the database cannot store."""


class StoreDamaged(StoreError):
    """Error of a store whose file is no database any more, or is overwritten in parts."""


class _Outdated(StoreError):
    """Error of a store that an earlier release wrote."""


def open_for_writing(url: str) -> Engine:
    """Open a store, and make it or bring it up to date where needed.

    Raises
    ------
    StoreError
        The store cannot be opened, made or written.
    """
    parsed = parsed_url(url)
    if is_sqlite(parsed):
        path = path_of(parsed)
        if not path.parent.is_dir():
            raise StoreError(f"{path}: provenance store cannot be made, its folder does not exist")
        engine = _sqlite_engine(parsed, lambda: _connect(path, "rwc"), "BEGIN IMMEDIATE")
        event.listen(engine, "connect", _set_up)
    else:
        engine = _postgresql_engine(parsed, is_read_only=False)
    return _opened(engine, _make_or_migrate)


def open_for_reading(url: str) -> Engine:
    """Open a store that exists, so that nothing can be written; a writer may be at work meanwhile.

    A store that an earlier release wrote is brought up to date before.

    Raises
    ------
    StoreError
        There is none, or it cannot be read.
    """
    try:
        return _open_for_reading(parsed_url(url), _check_is_newest)
    except _Outdated:
        close(open_for_writing(url))
        return _open_for_reading(parsed_url(url), _check_is_newest)


def open_as_it_is(url: str) -> Engine:
    """Open a store so that nothing can be written or brought up to date.

    Its tables may be those of an earlier release.

    Raises
    ------
    StoreError
        There is none, or it cannot be read.
    """
    return _open_for_reading(parsed_url(url), _check_is_known)


def _open_for_reading(parsed: URL, prepare: Callable[[Connection], object]) -> Engine:
    if is_sqlite(parsed):
        path = path_of(parsed)
        if not path.is_file():
            raise StoreError(f"{path}: no provenance store there; 'chimbuko run' makes one")
        engine = _sqlite_engine(parsed, lambda: _connect(path, _read_mode(path)), "BEGIN")
    else:
        engine = _postgresql_engine(parsed, is_read_only=True)
    return _opened(engine, prepare)


def ping(url: str) -> str:
    """Ask a store's database server whether it answers, and return its URL as it may be shown.

    Nothing is made there.

    Raises
    ------
    StoreError
        The server does not answer, or the URL is not usable.
    """
    parsed = parsed_url(url)
    if is_sqlite(parsed):
        if not path_of(parsed).parent.is_dir():
            raise StoreError(f"{path_of(parsed)}: provenance store cannot be made, its folder does not exist")
        return public_url(parsed)
    close(_opened(_postgresql_engine(parsed, is_read_only=True), _check_rights))
    return public_url(parsed)


def _check_rights(connection: Connection) -> None:
    """Check that tables can be made in a database of PostgreSQL."""
    _check_encoding(connection)
    schema, user = connection.exec_driver_sql("SELECT current_schema(), current_user").one()
    shown = public_url(connection.engine.url)
    if schema is None:
        raise StoreError(f"{shown}: the schema of its search path does not exist; make it, or name another")
    query = "SELECT has_schema_privilege(%s, 'CREATE')"
    if not connection.exec_driver_sql(query, (schema,)).scalar_one():
        raise StoreError(
            f"{shown}: {user} may not make tables there; its owner can allow that: "
            f"GRANT CREATE ON SCHEMA {schema} TO {user}"
        )


def _check_encoding(connection: Connection) -> None:
    """Check that a database of PostgreSQL can hold all names."""
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise StoreError(
            f"{public_url(connection.engine.url)}: the database's encoding is {encoding}, which cannot hold "
            "all names; make one with: createdb --template template0 --encoding UTF8 NAME"
        )


def put_aside(url: str) -> Path:
    """Give a damaged SQLite file and its log another name in the folder, and return that.

    Other tools may still recover what it held. Nothing may have it open for writing.
    """
    path = path_of(parsed_url(url))
    number = next(n for n in itertools.count(1) if not _aside(path, n).exists())
    aside = _aside(path, number)
    # The database comes last: while it is there, all can be tried again.
    for suffix in ("-shm", "-wal", ""):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.damaged-{number}")


def close(engine: Engine) -> None:
    """Close a store that was written; what SQLite holds in its log goes into the file. Where that cannot be
    written it stays in the log, from which it is read as well; that has been said before.
    """
    if engine.dialect.name == "sqlite":
        refused = (sqlite3.Error, exc.SQLAlchemyError)
        with suppress(*refused), closing(engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()


@contextmanager
def store_errors(engine: Engine) -> Iterator[None]:
    """Turn a database's errors into one line that names the store, without its password."""
    try:
        yield
    except (exc.SQLAlchemyError, OverflowError) as error:
        kind = _kind(error)
        if kind is StoreDamaged:
            # The connection is closed, as another file may be put in the place of this one.
            engine.dispose()
        raise kind(f"{public_url(engine.url)}: {_reason(error)}") from error


def _opened(engine: Engine, prepare: Callable[[Connection], object]) -> Engine:
    """Return ``engine`` once the first transaction on it has succeeded."""
    try:
        with store_errors(engine), engine.begin() as connection:
            prepare(connection)
    except StoreError:
        engine.dispose()
        raise
    return engine


class _SqliteCompiler(SQLiteCompiler):
    """Compiler that writes the index that a statement is to take."""

    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:
        return text


def _sqlite_engine(url: URL, connect: Callable[[], sqlite3.Connection], begin: str) -> Engine:
    engine = sqlalchemy.create_engine(url, creator=connect)
    engine.dialect.statement_compiler = _SqliteCompiler

    # The driver would begin transactions by itself, too late for a lock and never for reads: it is kept from
    # that.
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "begin", begin_transaction)
    return engine


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _read_mode(path: Path) -> str:
    """Return the mode in which to open a database that is only read.

    A database in WAL mode needs a file beside it, unless SQLite is promised that nobody writes. That is so
    where the folder cannot be written and no log is there.
    """
    log = path.with_name(path.name + "-wal")
    can_write = os.access(path.parent, os.W_OK)
    return "ro" if can_write or log.exists() else "ro&immutable=1"


def _set_up(connection: sqlite3.Connection, _record: Any) -> None:
    # For a new file: twenty tables and indexes begin with a page each, 90 kB with pages of 4 kB, where a
    # short run needs 30 kB in all. Below 2 kB the pages of a large store are badly filled: 373 bytes per call
    # against 354, and 346 with 4 kB.
    connection.execute("PRAGMA page_size=2048")
    connection.execute("PRAGMA journal_mode=WAL")
    # What is committed must be on the disk: the writer acknowledges it then, and agents remove what they
    # kept. It takes 0.6 ms for 200 rows instead of 0.3, on a local disk, and the writer commits twice a
    # second.
    connection.execute("PRAGMA synchronous=FULL")


def _postgresql_engine(url: URL, is_read_only: bool) -> Engine:
    try:
        return sqlalchemy.create_engine(
            url,
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_S,
                "application_name": "chimbuko",
                # Without this, texts of a database without an encoding come as bytes.
                "client_encoding": "utf8",
            },
            execution_options={"postgresql_readonly": is_read_only},
            # Positional parameters let both databases take the same tuples.
            paramstyle="format",
            pool_pre_ping=True,
        )
    except ModuleNotFoundError:
        raise StoreError(
            "a PostgreSQL store needs the driver psycopg; install it with: pip install 'chimbuko[postgresql]'"
        ) from None


def _make_or_migrate(connection: Connection) -> None:
    """Make the tables of a new store, or apply the migrations that it lacks."""
    if connection.dialect.name == "postgresql":
        _check_encoding(connection)
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
    if _version(connection) is None:
        make_tables(connection)
    elif _check_is_known(connection) != SCHEMA_VERSION:
        _migrate(connection)


def _migrate(connection: Connection) -> None:
    """Apply the migrations that a store of an earlier release lacks."""
    # Imported here because most stores need no migrations, and Alembic takes 0.2 s to load.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, SCHEMA_VERSION)


def _check_is_newest(connection: Connection) -> None:
    if _check_is_known(connection) != SCHEMA_VERSION:
        raise _Outdated


def _version(connection: Connection) -> str | None:
    if not sqlalchemy.inspect(connection).has_table("alembic_version"):
        return None
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()


def _check_is_known(connection: Connection) -> str:
    """Return the layout of a store, where this code knows it or can bring it up to date."""
    found, where = _version(connection), public_url(connection.engine.url)
    if found is None:
        raise StoreError(f"{where}: holds no provenance of Chimbuko")
    if found < FIRST_RELEASE:
        raise StoreError(
            f"{where}: written by a Chimbuko from before the first release, whose layout {found} cannot "
            "be read any more; repeat the run, or use the Chimbuko that wrote it"
        )
    if found > SCHEMA_VERSION:
        raise StoreError(
            f"{where}: has the layout {found}, this Chimbuko knows {SCHEMA_VERSION}; "
            "use the Chimbuko that wrote it, or a newer one"
        )
    return found


def _kind(error: Exception) -> type[StoreError]:
    # OverflowError is how SQLite's driver refuses an integer of more than 64 bits.
    if isinstance(error, exc.IntegrityError) and getattr(error.orig, "sqlstate", "") == _UNIQUE_VIOLATION:
        # Another writer has written the same a moment before: at the next try it is there.
        return StoreBusy
    if isinstance(error, (exc.DataError, exc.IntegrityError, OverflowError)):
        return StoreRefused
    if any(word in _words(error) for word in _DAMAGE):
        return StoreDamaged
    lost = isinstance(error, exc.DBAPIError) and error.connection_invalidated
    return StoreBusy if lost or isinstance(error, exc.OperationalError) else StoreError


def _reason(error: Exception) -> str:
    """Return the database's own words, and what to do."""
    text = _words(error)
    if any(word in text for word in _DAMAGE):
        return f"not a usable database ({text}); restore it from a copy, or repeat the run"
    if "unable to open" in text or "readonly database" in text:
        return f"cannot be opened ({text}); check the permissions of the file and its folder"
    if "locked" in text:
        return f"held by another program ({text}); try again, and see who else has the file open"
    if "disk I/O error" in text:
        return f"cannot be written ({text}); check the disk, and whether it is mounted for writing"
    if any(word in text for word in ("is full", "No space left", "free disk space")):
        return f"cannot be written ({text}); free some space"
    if "connection failed" in text or getattr(error, "connection_invalidated", False):
        return f"cannot be reached ({text}); check the URL, and that the server runs"
    return text


def _words(error: Exception) -> str:
    """Return the database's own words on one line, without the statement."""
    return " ".join(str(getattr(error, "orig", None) or error).split())
