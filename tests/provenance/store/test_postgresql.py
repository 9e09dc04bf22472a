"""What differs between PostgreSQL and the default; all else is tested on both kinds of store at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy
from sqlalchemy import Engine

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.errors import StoreError
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import (
    StoreRefused,
    open_for_reading,
    open_for_writing,
    ping,
    store_errors,
)
from chimbuko.provenance.store.tables import PROGRAMS
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch
from tests.postgresql import PASSWORD, PostgresqlServer

Record = Callable[..., CallRecord]
Batch = Callable[..., RecordBatch]


@pytest.fixture
def store_url(postgresql_schema: str) -> str:
    return postgresql_schema


@pytest.fixture
def reading(engine: Engine, store_url: str) -> Iterator[Engine]:
    reading = open_for_reading(store_url)
    yield reading
    reading.dispose()


def test_an_empty_database_holds_no_provenance(store_url: str) -> None:
    with pytest.raises(StoreError, match="holds no provenance"):
        open_for_reading(store_url)


def test_several_processes_may_make_the_tables_at_once(store_url: str) -> None:
    engines: list[Engine] = []
    threads = [threading.Thread(target=lambda: engines.append(open_for_writing(store_url))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engines) == 3
    for engine in engines:
        engine.dispose()


def test_readers_cannot_write(reading: Engine) -> None:
    with pytest.raises(StoreError, match="read-only"), store_errors(reading), reading.begin() as connection:
        connection.execute(PROGRAMS.insert().values(run=1, program=0, name="heat"))


def test_a_wrong_password_is_not_repeated(store_url: str) -> None:
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        open_for_writing(store_url.replace(":hush@", ":guess@"))
    assert "guess" not in str(caught.value)


def test_text_that_postgresql_cannot_hold_is_refused(writer: Writer, record: Record, batch: Batch) -> None:
    with pytest.raises(StoreRefused, match="NUL"):
        writer.write([batch(records=[record(node="a\0b")])])


def test_long_names_of_templates_can_be_stored(
    writer: Writer, provenance: Provenance, record: Record, batch: Batch
) -> None:
    inner = "std::map<std::string, std::vector<double>>"
    name = f"void solve<{', '.join(f'block<{n}, {inner}>' for n in range(120))}>(int) [{{solve.cpp}} {{1,1}}]"
    assert len(name) > 6_000
    writer.write([batch(records=[record(function=name)], dropped={name: 1})])
    assert provenance.calls.record("0:1:3:0").function == name


def test_connections_that_were_lost_while_idle_are_replaced(
    writer: Writer, reading: Engine, provenance: Provenance, record: Record, batch: Batch
) -> None:
    writer.write([batch(records=[record(row=1)])])
    with reading.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    writer.write([batch(records=[record(row=2)])])
    assert provenance.calls.record("0:1:3:2") == record(row=2)


@pytest.fixture
def ascii_url(postgresql: PostgresqlServer) -> Iterator[str]:
    """A database without an encoding, as a careless administrator makes it."""
    server = sqlalchemy.create_engine(postgresql.url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(
            "CREATE DATABASE careless ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
        )
        yield postgresql.url.rpartition("/")[0] + "/careless"
        connection.exec_driver_sql("DROP DATABASE careless WITH (FORCE)")
    server.dispose()


def test_a_database_whose_encoding_cannot_hold_all_names_is_refused(ascii_url: str) -> None:
    for attempt in (ping, open_for_writing):
        with pytest.raises(StoreError, match=r"encoding is SQL_ASCII.*createdb"):
            attempt(ascii_url)


def test_who_may_not_make_tables_is_told_before_a_run(postgresql: PostgresqlServer) -> None:
    server = sqlalchemy.create_engine(postgresql.url)
    with server.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
        connection.exec_driver_sql("CREATE SCHEMA closed")
        connection.exec_driver_sql("GRANT USAGE ON SCHEMA closed TO guest")
    guest = postgresql.url.replace("://postgres:", "://guest:")
    try:
        with pytest.raises(StoreError, match=r"guest may not .*GRANT CREATE ON SCHEMA closed"):
            ping(f"{guest}?options=-csearch_path%3Dclosed")
        with pytest.raises(StoreError, match="does not exist"):
            ping(f"{guest}?options=-csearch_path%3Dnowhere")
    finally:
        with server.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA closed")
            connection.exec_driver_sql("DROP ROLE guest")
        server.dispose()
