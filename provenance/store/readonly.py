"""Answers SQL that any user wrote: one statement that reads, within limits, and nothing else.

What a statement may do is decided by the database and not by looking at the text. SQLite asks for permission
for each table, function and pragma that a statement uses, on a connection that cannot write. PostgreSQL gets
the statement as the query of a cursor, where its grammar takes nothing but one SELECT or VALUES, in a
read-only transaction; the rights of a role beyond the store, such as reading the server's files, are for its
owner to restrict.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Engine, select

from chimbuko.core.errors import ChimbukoError, ConfigError, StoreError
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.tables import RUNS
from chimbuko.provenance.store.urls import public_url

if TYPE_CHECKING:
    import psycopg

TIME_LIMIT_S = 60.0
"""Time that a database may work on a statement unless another one is given."""

ROWS_AT_ONCE = 1000
"""Number of rows that are in memory at a time, where they are used as they come."""

MOST_ANSWER_BYTES = 1 << 29
"""Largest sum of the texts and blobs of an answer, in bytes: a thousand of the longest would fill a node."""
_VALUE_BYTES = 1 << 26
"""Longest text, blob or row that SQLite may make: ``zeroblob(1e9)`` would take a gigabyte."""
_HEAP_BYTES = 1 << 29
"""Most memory that SQLite may take in this process, in bytes, from the first statement of a user on."""
_PATTERN_BYTES = 1000
"""Longest pattern of SQLite's LIKE and GLOB, whose time grows with a power of the length and is not
limited."""
_INSTRUCTIONS = 10_000
"""Instructions of SQLite's virtual machine between two looks at the clock; they take some 0.3 ms."""

_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_REFUSED_FUNCTIONS = {"load_extension", "fts3_tokenizer"}
_PRAGMAS = {
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"),
    *("foreign_key_list", "function_list", "collation_list", "compile_options"),
}
"""Pragmas that only say what there is, whatever their argument."""

_NAMED = re.compile(r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | (?<![:\w]):([A-Za-z_]\w*)""", re.VERBOSE)
"""Pattern of a quoted text, which is left alone, or of a parameter."""

Value: TypeAlias = Any
"""Value of a cell: int, float, str, bytes, None, and what else PostgreSQL knows."""


@dataclass(frozen=True)
class Answer:
    """Answer to a statement, while it is read."""

    columns: list[str]
    """Names of the columns, each once: a second ``rank`` is ``rank_2``."""
    rows: Iterator[tuple[Value, ...]]


_Answering: TypeAlias = Callable[..., AbstractContextManager[Answer]]


@contextmanager
def answer_to(
    engine: Engine,
    statement: str,
    parameters: Mapping[str, Value],
    time_limit_s: float = TIME_LIMIT_S,
) -> Iterator[Answer]:
    """Let a store answer one statement that reads; the rows can be had inside the ``with`` block.

    Parameters
    ----------
    engine
        Store, from ``open_for_reading``.
    parameters
        Values that stand for ``:name`` in the statement.
    time_limit_s
        Time that the database may work on it. What is done with the rows does not count.

    Raises
    ------
    ConfigError
        The statement is wrong, does more than reading, or takes too long; with the database's words.
    StoreError
        The store cannot be read.
    """
    is_sqlite = engine.dialect.name == "sqlite"
    answer: Callable[..., AbstractContextManager[Answer]] = (
        _sqlite_answer if is_sqlite else _postgresql_answer
    )
    with store_errors(engine):
        connection = engine.raw_connection()
    try:
        with answer(connection.driver_connection, statement, parameters, _Clock(time_limit_s)) as answered:
            yield answered
    except _Unreadable as error:
        raise StoreError(f"{public_url(engine.url)}: {error}") from error
    finally:
        # Nobody else shall get a connection with these limits, or with what a statement has set in its
        # session.
        connection.invalidate()


def parameters_of(engine: Engine, run_id: str) -> dict[str, Value]:
    """Return the parameters of statements about a run: ``:run``, its number, and ``:run_id``."""
    with store_errors(engine), engine.connect() as connection:
        number = connection.execute(select(RUNS.c.number).where(RUNS.c.id == run_id)).scalar()
    return {"run": number, "run_id": run_id}


class _Unreadable(ChimbukoError):
    """Error that is not the statement's fault."""


class _Clock:
    """Clock of the time that a database may still work."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = self._left_s = limit_s
        self._end_s = 0.0

    @contextmanager
    def running(self) -> Iterator[float]:
        """Count the time inside the block; yields the seconds that are left."""
        begin_s = time.monotonic()
        self._end_s = begin_s + self._left_s
        try:
            yield self._left_s
        finally:
            self._left_s -= time.monotonic() - begin_s

    @property
    def is_over(self) -> bool:
        """Return whether the time is up, while it is counted."""
        return time.monotonic() >= self._end_s

    def error(self) -> ConfigError:
        """Return the error to report when the time is up."""
        return ConfigError(
            f"SQL: took longer than {self._limit_s:g} s; narrow it, or raise the limit on its time"
        )


@contextmanager
def _sqlite_answer(
    connection: sqlite3.Connection, statement: str, parameters: Mapping[str, Value], clock: _Clock
) -> Iterator[Answer]:
    refused: list[str] = []
    # The function that makes a table of JSON is declared at its first use, which the guard would take for a
    # new table.
    connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
    connection.execute("PRAGMA query_only=ON")
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute(f"PRAGMA hard_heap_limit={_HEAP_BYTES}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _PATTERN_BYTES)
    connection.set_authorizer(_guard(refused))
    connection.set_progress_handler(lambda: clock.is_over, _INSTRUCTIONS)

    def counted(work: Callable[[], Any]) -> Any:
        with clock.running():
            try:
                return work()
            except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
                code = getattr(error, "sqlite_errorcode", None)
                if code == sqlite3.SQLITE_INTERRUPT and not clock.is_over:
                    # The only other reason is a Ctrl-C that came while the progress handler ran, and went no
                    # further.
                    raise KeyboardInterrupt from None
                raise _sqlite_error(error, code, refused, clock) from error

    with closing(counted(lambda: connection.execute(statement, parameters))) as cursor:
        if cursor.description is None:
            raise ConfigError("SQL: no statement that answers anything; give a SELECT")
        yield Answer(
            _unique([column[0] for column in cursor.description]),
            _rows(lambda: counted(lambda: _fetched(cursor))),
        )


def _guard(refused: list[str]) -> Callable[..., int]:
    """Return the function that SQLite asks before it does anything; ``refused`` gets what is not allowed."""
    actions = {
        value: name.removeprefix("SQLITE_").replace("_", " ")
        for name in _ACTION_NAMES
        if (value := getattr(sqlite3, name, None)) is not None
    }

    def guard(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        is_allowed = (
            action in _ACTIONS
            or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _REFUSED_FUNCTIONS)
            or (action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS)
        )
        if is_allowed:
            return sqlite3.SQLITE_OK
        refused.append(" ".join(filter(None, (actions.get(action, "this"), first or second))))
        return sqlite3.SQLITE_DENY

    return guard


_ACTION_NAMES = (
    *(f"SQLITE_{verb}_{what}" for verb in ("CREATE", "DROP") for what in ("INDEX", "TABLE", "VIEW")),
    *(f"SQLITE_{verb}_TEMP_{what}" for verb in ("CREATE", "DROP") for what in ("INDEX", "TABLE", "VIEW")),
    *(f"SQLITE_{verb}{temporary}TRIGGER" for verb in ("CREATE", "DROP") for temporary in ("_", "_TEMP_")),
    *("SQLITE_INSERT", "SQLITE_UPDATE", "SQLITE_DELETE", "SQLITE_ALTER_TABLE", "SQLITE_CREATE_VTABLE"),
    *("SQLITE_DROP_VTABLE", "SQLITE_ATTACH", "SQLITE_DETACH", "SQLITE_PRAGMA", "SQLITE_FUNCTION"),
    *("SQLITE_TRANSACTION", "SQLITE_SAVEPOINT", "SQLITE_ANALYZE", "SQLITE_REINDEX"),
)


def _sqlite_error(error: Exception, code: int | None, refused: list[str], clock: _Clock) -> ChimbukoError:
    if code == sqlite3.SQLITE_INTERRUPT:
        return clock.error()
    words = _one_line(error)
    if refused:
        return ConfigError(f"SQL: {refused[0]} is not allowed ({words}); only reading is")
    # An error without a code comes from the driver: several statements, or parameters that do not fit.
    is_of_statement = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH)
    if code is None or code & 0xFF in (*is_of_statement, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_RANGE):
        return ConfigError(f"SQL: {words}")
    return _Unreadable(words)


@contextmanager
def _postgresql_answer(
    connection: psycopg.Connection[Any], statement: str, parameters: Mapping[str, Value], clock: _Clock
) -> Iterator[Answer]:
    import psycopg
    from psycopg.types.numeric import FloatLoader

    connection.rollback()
    connection.read_only = True
    cursor = psycopg.RawCursor(connection)
    # A sum of integers is of type numeric, and a decimal number is of no use in a table or JSON.
    cursor.adapters.register_loader("numeric", FloatLoader)
    text, values = _numbered(statement, parameters)

    def counted(statement: str, values: Sequence[Value] = (), binary: bool = False) -> None:
        with clock.running() as left_s:
            # Set anew each time: a statement can change it, but not for a statement under way.
            left_ms = f"{max(1.0, 1000 * left_s):.0f}"
            cursor.execute("SELECT pg_catalog.set_config('statement_timeout', $1, true)", [left_ms])
            cursor.execute(statement.encode(), values, binary=binary)

    def fetched() -> list[tuple[Value, ...]]:
        with _postgresql_errors(clock):
            counted(f"FETCH {ROWS_AT_ONCE} FROM answer")
            return cursor.fetchall()

    with closing(cursor):
        with _postgresql_errors(clock):
            # Binary results come by the extended protocol, which takes one statement and not several.
            counted(f"DECLARE answer NO SCROLL CURSOR FOR {text}", values, binary=True)
            counted("FETCH 0 FROM answer")
        yield Answer(_unique([column.name for column in cursor.description or ()]), _rows(fetched))


@contextmanager
def _postgresql_errors(clock: _Clock) -> Iterator[None]:
    import psycopg

    try:
        yield
    except psycopg.errors.QueryCanceled:
        raise clock.error() from None
    except (psycopg.Error, ValueError) as error:
        words = getattr(getattr(error, "diag", None), "message_primary", None) or _one_line(error)
        if isinstance(error, psycopg.OperationalError):
            raise _Unreadable(words) from error
        raise ConfigError(f"SQL: {words}") from error


def _numbered(statement: str, parameters: Mapping[str, Value]) -> tuple[str, list[Value]]:
    """Return the statement with ``$1`` and so on for the parameters that it names, and their values."""
    used: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name not in parameters:
            return match[0]
        if name not in used:
            used.append(name)
        return f"${used.index(name) + 1}"

    text = _NAMED.sub(number, statement)
    return text, [parameters[name] for name in used]


def _fetched(cursor: sqlite3.Cursor) -> list[tuple[Value, ...]]:
    """Return the next rows: so many that they take no more memory than one of the longest values."""
    rows: list[tuple[Value, ...]] = []
    size = 0
    while len(rows) < ROWS_AT_ONCE and size < _VALUE_BYTES and (row := cursor.fetchone()) is not None:
        rows.append(row)
        size += _size(row)
    return rows


def _rows(fetch: Callable[[], list[tuple[Value, ...]]]) -> Iterator[tuple[Value, ...]]:
    size = 0
    while rows := fetch():
        size += sum(map(_size, rows))
        if size > MOST_ANSWER_BYTES:
            raise ConfigError(f"SQL: the answer has more than {MOST_ANSWER_BYTES >> 20} MB; ask for less")
        yield from rows


def _size(row: tuple[Value, ...]) -> int:
    """Return the size of the texts and blobs in a row, in bytes or characters."""
    return sum(len(cell) for cell in row if isinstance(cell, str | bytes))


def _unique(names: list[str]) -> list[str]:
    """Return names with a number where they would stand twice."""
    taken: dict[str, None] = {}
    for name in names:
        candidate, count = name, 1
        while candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        taken[candidate] = None
    return list(taken)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
