"""Index of a memory over runs: an SQLite file beside the runs, or two tables of a PostgreSQL store.

It asks the databases by their drivers: SQLAlchemy takes 0.25 s of CPU to load, and a history 0.3 s in all.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import msgspec

from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.core.unpacking import unpacked
from chimbuko.provenance.history.entry import Details, Entry, Version
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory, RunInfo

BUSY_S = 5.0
"""Time in seconds that a statement waits for another run that writes its entry."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS history_series "
    "(key TEXT PRIMARY KEY, name TEXT NOT NULL, title TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS history_runs (id TEXT PRIMARY KEY, name TEXT NOT NULL, folder TEXT NOT NULL, "
    "key TEXT NOT NULL, start_key TEXT NOT NULL, moved_to TEXT NOT NULL DEFAULT '', program TEXT NOT NULL, "
    "started_us BIGINT NOT NULL, is_good INTEGER NOT NULL, is_left_out INTEGER NOT NULL DEFAULT 0, "
    "quantities {blob} NOT NULL, version {blob} NOT NULL, details {blob} NOT NULL)",
    "CREATE TABLE IF NOT EXISTS history_models (id TEXT PRIMARY KEY, model {blob} NOT NULL)",
    "CREATE INDEX IF NOT EXISTS history_by_key ON history_runs (key, started_us)",
    "CREATE INDEX IF NOT EXISTS history_by_start ON history_runs (start_key, started_us)",
    "CREATE INDEX IF NOT EXISTS history_by_time ON history_runs (started_us)",
    "CREATE INDEX IF NOT EXISTS history_moved ON history_runs (moved_to) WHERE moved_to <> ''",
)
_PLAIN = "id", "name", "folder", "key", "start_key", "program", "started_us"
_SERIES = "CASE WHEN r.moved_to <> '' THEN r.moved_to ELSE s.name END"
_JOINED = "FROM history_runs r JOIN history_series s ON s.key = r.key"
_OF_SERIES = (
    "(r.moved_to = ? OR (r.moved_to = '' AND r.key IN (SELECT key FROM history_series WHERE name = ?)))"
)


class RunRow(msgspec.Struct, frozen=True):
    """Run of a series, as its history shows it."""

    id: str
    name: str
    folder: str
    started_us: int
    is_good: bool
    """Whether it ended in order, and nobody has left it out."""
    quantities: dict[str, float]
    version: Version


class SeriesRow(msgspec.Struct, frozen=True):
    """Series in the list of all."""

    name: str
    title: str
    runs: int
    first_us: int
    last_us: int


class Index:
    """Index of runs; a context manager that closes it.

    All methods raise ``StoreError`` where it cannot be read or written.

    Parameters
    ----------
    connection
        Connection of the driver ``sqlite3`` or ``psycopg``.
    error
        Class of the driver's errors.
    place
        Where it is, as it may be shown.
    """

    def __init__(self, connection: Any, error: type[Exception], place: str) -> None:
        self._connection = connection
        self._error = error
        self._is_sqlite = error is sqlite3.Error
        self.place = place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def make_tables(self) -> None:
        """Make the tables where they are not there yet."""
        with self._transaction():
            for statement in _TABLES:
                self._do(statement.format(blob="BLOB" if self._is_sqlite else "BYTEA"))

    def write(self, entry: Entry) -> None:
        """Write the entry of a run; what was corrected by hand stays."""
        columns = {
            **{name: getattr(entry, name) for name in _PLAIN},
            "is_good": int(entry.is_good),
            "quantities": msgspec.msgpack.encode(entry.quantities),
            "version": msgspec.msgpack.encode(entry.version),
            "details": zlib.compress(msgspec.msgpack.encode(entry.details)),
        }
        marks = ", ".join("?" * len(columns))
        updates = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "id")
        with self._transaction():
            if not self._rows("SELECT 1 FROM history_series WHERE key = ?", entry.key):
                new = entry.key, self._free_name(entry.program), entry.title
                self._do("INSERT INTO history_series (key, name, title) VALUES (?, ?, ?)", *new)
            self._do(
                f"INSERT INTO history_runs ({', '.join(columns)}) VALUES ({marks}) "
                f"ON CONFLICT (id) DO UPDATE SET {updates}",
                *columns.values(),
            )
            self._do(
                "INSERT INTO history_models (id, model) VALUES (?, ?) "
                "ON CONFLICT (id) DO UPDATE SET model = excluded.model",
                entry.id,
                entry.model,
            )

    def series(self) -> list[SeriesRow]:
        """Return all series, that of the newest run first."""
        rows = self._rows(
            f"SELECT {_SERIES}, MIN(s.title), COUNT(*), MIN(r.started_us), MAX(r.started_us) {_JOINED} "
            f"GROUP BY {_SERIES} ORDER BY MAX(r.started_us) DESC"
        )
        return [SeriesRow(*row) for row in rows]

    def has_runs(self, series: str) -> bool:
        """Return whether a series has runs here."""
        query = f"SELECT 1 FROM history_runs r WHERE {_OF_SERIES} LIMIT 1"
        return bool(self._rows(query, series, series))

    def title(self, series: str) -> str:
        """Return a series in words."""
        rows = self._rows("SELECT MIN(title) FROM history_series WHERE name = ?", series)
        return rows[0][0] or "put together by hand"

    def series_of(self, run: str) -> str | None:
        """Return the series of a run, given by its id or its name; None if it is not here."""
        rows = self._rows(
            f"SELECT {_SERIES} {_JOINED} WHERE r.id = ? OR r.name = ? ORDER BY r.started_us DESC LIMIT 1",
            run,
            run,
        )
        return rows[0][0] if rows else None

    def newest_series(self, start_key: str = "") -> str | None:
        """Return the series of the newest run, or of the newest that began alike; None without any."""
        where, values = ("WHERE r.start_key = ?", (start_key,)) if start_key else ("", ())
        rows = self._rows(f"SELECT {_SERIES} {_JOINED} {where} ORDER BY r.started_us DESC LIMIT 1", *values)
        return rows[0][0] if rows else None

    def runs(self, series: str, last: int) -> list[RunRow]:
        """Return the last runs of a series, the oldest first."""
        rows = self._rows(
            "SELECT r.id, r.name, r.folder, r.started_us, r.is_good, r.is_left_out, r.quantities, r.version "
            f"FROM history_runs r WHERE {_OF_SERIES} ORDER BY r.started_us DESC LIMIT ?",
            *(series, series, last),
        )
        quantities, versions = msgspec.msgpack.Decoder(dict[str, float]), msgspec.msgpack.Decoder(Version)
        return [
            RunRow(
                *(run, name, folder, started_us),
                is_good=bool(is_good) and not is_left_out,
                quantities=quantities.decode(bytes(packed)),
                version=versions.decode(bytes(version)),
            )
            for run, name, folder, started_us, is_good, is_left_out, packed, version in reversed(rows)
        ]

    def details(self, ids: Sequence[str]) -> dict[str, Details]:
        """Return the details of runs by their ids; damaged ones are left out."""
        decoder = msgspec.msgpack.Decoder(Details)
        found = {}
        for run, packed in self._of_ids("SELECT id, details FROM history_runs", ids):
            with suppress(StoreError, msgspec.MsgspecError):
                found[run] = decoder.decode(unpacked(packed))
        return found

    def models(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Return the packed statistics of runs by their ids."""
        return dict(self._of_ids("SELECT id, model FROM history_models", ids))

    def rename(self, series: str, name: str) -> None:
        """Give a series another name; where one has that already, both are one from then on."""
        self._check_is_there(series)
        with self._transaction():
            self._do("UPDATE history_series SET name = ? WHERE name = ?", name, series)
            self._do("UPDATE history_runs SET moved_to = ? WHERE moved_to = ?", name, series)

    def move(self, run: str, series: str) -> None:
        """Have a run, given by its id or name, in another series."""
        self._change(run, "moved_to = ?", series)

    def leave_out(self, run: str, is_left_out: bool) -> None:
        """Leave a run, given by its id or name, out of what its series learns, or take it in again."""
        self._change(run, "is_left_out = ?", int(is_left_out))

    def forget(self, before_us: int | None, keep: int | None) -> int:
        """Remove runs older than a time, and of each series all but the newest; return how many."""
        gone = []
        for one in self.series():
            query = f"SELECT r.id, r.started_us FROM history_runs r WHERE {_OF_SERIES}"
            rows = self._rows(f"{query} ORDER BY r.started_us DESC", one.name, one.name)
            gone += [
                run
                for at, (run, started_us) in enumerate(rows)
                if (keep is not None and at >= keep) or (before_us is not None and started_us < before_us)
            ]
        with self._transaction():
            for run in gone:
                self._do("DELETE FROM history_runs WHERE id = ?", run)
                self._do("DELETE FROM history_models WHERE id = ?", run)
            self._do("DELETE FROM history_series WHERE key NOT IN (SELECT key FROM history_runs)")
        return len(gone)

    def _free_name(self, program: str) -> str:
        taken = {name for (name,) in self._rows("SELECT name FROM history_series")}
        number = 1
        while (name := program if number == 1 else f"{program}-{number}") in taken:
            number += 1
        return name

    def _check_is_there(self, series: str) -> None:
        known = [one.name for one in self.series()]
        if series not in known:
            raise ConfigError(f"series {series!r}: there is none; there are {', '.join(known) or 'none yet'}")

    def _change(self, run: str, what: str, value: str | int) -> None:
        found = self._rows("SELECT id FROM history_runs WHERE id = ? OR name = ?", run, run)
        if len(found) != 1:
            raise ConfigError(
                f"{run}: {len(found)} runs of the index have this id or name; give the id of one"
            )
        with self._transaction():
            self._do(f"UPDATE history_runs SET {what} WHERE id = ?", value, found[0][0])

    def _of_ids(self, query: str, ids: Sequence[str]) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        for at in range(0, len(ids), 500):
            part = ids[at : at + 500]
            marks = ", ".join("?" * len(part))
            found += [
                (run, bytes(packed)) for run, packed in self._rows(f"{query} WHERE id IN ({marks})", *part)
            ]
        return found

    def _rows(self, statement: str, *values: object) -> list[Any]:
        with self._errors():
            return list(self._execute(statement, values).fetchall())

    def _do(self, statement: str, *values: object) -> None:
        with self._errors():
            self._execute(statement, values)

    def _execute(self, statement: str, values: Sequence[object]) -> Any:
        return self._connection.execute(
            statement if self._is_sqlite else statement.replace("?", "%s"), values
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._do("BEGIN IMMEDIATE" if self._is_sqlite else "BEGIN")
        try:
            yield
        except BaseException:
            with suppress(StoreError):
                self._do("ROLLBACK")
            raise
        self._do("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            words = " ".join(str(error).split())
            is_damaged = getattr(error, "sqlite_errorname", "") in ("SQLITE_NOTADB", "SQLITE_CORRUPT")
            remedy = "; remove it, and 'chimbuko runs series rebuild' makes it anew" if is_damaged else ""
            raise StoreError(f"{self.place}: the index of runs cannot be used ({words}){remedy}") from error


class Access(Enum):
    """Purpose for which an index is opened."""

    READ = "ro"
    CHANGE = "rw"
    MAKE = "rwc"
    """Change it, and make it where there is none yet."""


def open_index(place: str, access: Access = Access.READ) -> Index:
    """Open an index by its path or the URL of a PostgreSQL store.

    Raises
    ------
    StoreError
        There is none, or it cannot be opened.
    """
    index = _postgresql(place) if "://" in place else _sqlite(Path(place), access)
    if access is not Access.READ:
        try:
            index.make_tables()
        except BaseException:
            index.__exit__()
            raise
    return index


def _sqlite(path: Path, access: Access) -> Index:
    if access is not Access.MAKE and not path.is_file():
        raise StoreError(
            f"{path}: no index of runs yet; the next run in {path.parent.name} makes one, or "
            "'chimbuko runs series rebuild'; for runs elsewhere (-o) CHIMBUKO_HISTORY names it"
        )
    try:
        if not path.exists():
            # Readable for the group, and writable where the group may write to the folder.
            mode = 0o640 | (path.parent.stat().st_mode & 0o020)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, mode))
            os.chmod(path, mode)
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode={access.value}",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
        )
    except (sqlite3.Error, OSError) as error:
        words = (isinstance(error, OSError) and error.strerror) or error
        raise StoreError(f"{path}: the index of runs cannot be opened ({words})") from error
    return Index(connection, sqlite3.Error, str(path))


def _postgresql(url: str) -> Index:
    from chimbuko.provenance.store.urls import parsed_url, public_url

    parsed = parsed_url(url)
    try:
        import psycopg
    except ModuleNotFoundError:
        raise StoreError(
            "an index in PostgreSQL needs the driver psycopg: pip install 'chimbuko[postgresql]'"
        ) from None
    plain = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        connection = psycopg.connect(plain, autocommit=True, connect_timeout=10)
    except psycopg.Error as error:
        words = " ".join(str(error).split())
        raise StoreError(f"{public_url(parsed)}: the index of runs cannot be opened ({words})") from error
    return Index(connection, psycopg.Error, public_url(parsed))


# Place of the index that a run, or a folder of runs, belongs to.


HISTORY_VARIABLE = "CHIMBUKO_HISTORY"
"""Environment variable with the path of an index, or the URL of a PostgreSQL store; ``none`` for none at all.
"""
FILE = "history.sqlite"
NONE = "none"


def place_of_folder(folder: Path = RUNS_FOLDER) -> str | None:
    """Return the place of the index of a folder of runs; None if nothing is to be kept."""
    given = os.environ.get(HISTORY_VARIABLE, "")
    return None if given == NONE else given or str(folder.absolute() / FILE)


def place_of_run(run: RunDirectory, info: RunInfo) -> str | None:
    """Return the place of the index that a run is entered in; None for none.

    A run that is not under ``chimbuko-runs`` is entered only where an index lies beside its folder.
    """
    if os.environ.get(HISTORY_VARIABLE):
        return place_of_folder()
    url = run.used_store_url(info)
    if not url.startswith("sqlite:"):
        return url
    folder = run.path.parent
    is_kept = folder.name == RUNS_FOLDER.name or (folder / FILE).exists()
    return str(folder / FILE) if is_kept else None
