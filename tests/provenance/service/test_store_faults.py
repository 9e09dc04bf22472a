"""The writer while its store really fails: all is stored once, afterwards; the reason is reported once."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.store import engine as store
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.protocol.runbroker import RunBroker
from tests.disks import own_disk
from tests.postgresql import PostgresqlServer
from tests.provenance.writing import acknowledged, send, until, writing
from tests.sample_records import RUN_ID, make_batch, make_record, make_run

PER_BATCH = 5
BATCHES = 400
SECOND_HALF = range(BATCHES // 2 + 1, BATCHES + 1)


class Bench:
    """A broker, a store, and the writer at work between them."""

    def __init__(self, broker: RunBroker) -> None:
        self.broker = broker

    def send(self, sequences: range) -> None:
        for n in sequences:
            records = [make_record(row=PER_BATCH * n + i) for i in range(PER_BATCH)]
            batch: RecordBatch = make_batch(n, records=records)
            send(self.broker, batch)

    @property
    def acknowledged(self) -> int:
        return acknowledged(self.broker)

    @property
    def waiting(self) -> int:
        return self.broker.client.xlen(self.broker.keys.records)

    @property
    def reported(self) -> list[str]:
        """What is reported to the user."""
        return [line.decode() for _, line in self.broker.read(self.broker.keys.store_news, b"0", 100)]

    def assert_reported_once(self, reason: str) -> None:
        """What was wrong, and that it is over."""
        assert len(self.reported) == 2, self.reported
        assert reason in self.reported[0]
        assert "records are stored again" in self.reported[1]


@pytest.fixture
def bench(private_broker: PrivateBroker) -> Iterator[Bench]:
    with connect(private_broker.keeper_url) as client:
        client.flushall()
        yield Bench(RunBroker(client, RUN_ID))


def make_store(url: str, is_own: bool = False) -> Destination:
    engine = open_for_writing(url)
    Writer(engine, RUN_ID).write_run(make_run())
    close(engine)
    return Destination(url, RUN_ID, make_run() if is_own else None)


def stored_rows(url: str) -> list[int]:
    """Rows of the calls in a store: each once."""
    engine = open_for_reading(url)
    page = Provenance(engine, RUN_ID).calls.page(CallFilter(label=None), limit=100_000)
    engine.dispose()
    return sorted(int(call.id.rpartition(":")[2]) for call in page.calls)


def rows_of(sequences: range) -> list[int]:
    return [PER_BATCH * n + i for n in sequences for i in range(PER_BATCH)]


def overwrite(path: Path) -> None:
    """As a failing disk does it, or a program that takes the file for its own."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(0)
        file.write(os.urandom(size))


ALL = range(1, BATCHES + 1)


def test_a_file_damaged_in_mid_run_is_put_aside_and_a_new_one_begun(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "provenance.sqlite"
    destination = make_store(f"sqlite:///{path}", is_own=True)
    with writing(bench.broker, destination):
        bench.send(range(1, BATCHES // 2 + 1))
        until(lambda: bench.acknowledged == BATCHES // 2)
        whole = tmp_path / "whole.sqlite"
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(whole)) as target:
            source.backup(target)
        # What the log holds would hide the damage.
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        overwrite(path)
        bench.send(SECOND_HALF)
        until(lambda: bench.acknowledged == BATCHES)
    assert stored_rows(f"sqlite:///{whole}") + stored_rows(destination.url) == rows_of(ALL)
    assert (tmp_path / "provenance.sqlite.damaged-1").stat().st_size > 0
    (line,) = bench.reported
    assert "put aside" in line
    assert "provenance.sqlite.damaged-1" in line


def test_a_file_damaged_before_the_writer_starts_again_is_put_aside(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "provenance.sqlite"
    destination = make_store(f"sqlite:///{path}", is_own=True)
    (tmp_path / "provenance.sqlite.damaged-1").write_text("of another time")
    damaged = os.urandom(20_000)
    path.write_bytes(damaged)
    with writing(bench.broker, destination):
        bench.send(ALL)
        until(lambda: bench.acknowledged == BATCHES)
    assert stored_rows(destination.url) == rows_of(ALL)
    assert (tmp_path / "provenance.sqlite.damaged-2").read_bytes() == damaged
    assert (tmp_path / "provenance.sqlite.damaged-1").read_text() == "of another time"


def test_a_damaged_file_that_cannot_be_put_aside_is_waited_for(bench: Bench, disk: Path) -> None:
    path = disk / "provenance.sqlite"
    destination = make_store(f"sqlite:///{path}", is_own=True)
    path.write_bytes(os.urandom(20_000))
    remount(disk, "ro")
    with writing(bench.broker, destination):
        bench.send(ALL)
        until(lambda: bool(bench.reported))
        assert (bench.acknowledged, bench.waiting) == (0, BATCHES)
        remount(disk, "rw")
        until(lambda: bench.acknowledged == BATCHES)
    assert stored_rows(destination.url) == rows_of(ALL)
    assert "put aside" in bench.reported[1]


def test_a_damaged_file_of_somebody_else_is_left_alone_until_it_is_restored(
    bench: Bench, tmp_path: Path
) -> None:
    path, copy = tmp_path / "shared.sqlite", tmp_path / "copy.sqlite"
    destination = make_store(f"sqlite:///{path}")
    shutil.copyfile(path, copy)
    damaged = os.urandom(20_000)
    path.write_bytes(damaged)
    with writing(bench.broker, destination):
        bench.send(ALL)
        until(lambda: bool(bench.reported))
        assert (bench.acknowledged, bench.waiting) == (0, BATCHES)
        assert path.read_bytes() == damaged
        copy.rename(path)
        until(lambda: bench.acknowledged == BATCHES)
    assert stored_rows(destination.url) == rows_of(ALL)
    bench.assert_reported_once("not a usable database")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    with own_disk(tmp_path / "disk", "64m") as folder:
        yield folder


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def test_a_folder_that_cannot_be_written_delays_records(
    bench: Bench, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = make_store(f"sqlite:///{disk / 'provenance.sqlite'}")
    remount(disk, "ro")
    with writing(bench.broker, destination):
        bench.send(ALL)
        until(lambda: bool(bench.reported))
        assert (bench.acknowledged, bench.waiting) == (0, BATCHES)
        remount(disk, "rw")
        until(lambda: bench.acknowledged == BATCHES)
    assert stored_rows(destination.url) == rows_of(ALL)
    bench.assert_reported_once("cannot be opened")


def test_a_store_that_is_locked_when_the_writer_starts_is_waited_for(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.01)
    destination = make_store(f"sqlite:///{tmp_path / 'provenance.sqlite'}")
    holder = sqlite3.connect(tmp_path / "provenance.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with writing(bench.broker, destination):
        bench.send(ALL)
        until(lambda: bool(bench.reported))
        assert (bench.acknowledged, bench.waiting) == (0, BATCHES)
        holder.execute("ROLLBACK")
        until(lambda: bench.acknowledged == BATCHES)
    holder.close()
    assert stored_rows(destination.url) == rows_of(ALL)
    bench.assert_reported_once("held by another program")


@pytest.fixture
def postgresql_schema(postgresql: PostgresqlServer) -> str:
    """Name of an empty schema."""
    name = f"faults_{time.monotonic_ns()}"
    administrate(postgresql, f"CREATE SCHEMA {name}")
    return name


def administrate(postgresql: PostgresqlServer, *statements: str) -> None:
    engine = sqlalchemy.create_engine(postgresql.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_a_postgresql_killed_in_mid_write_and_started_again_has_all_once(
    bench: Bench, postgresql: PostgresqlServer, postgresql_schema: str
) -> None:
    destination = make_store(f"{postgresql.url}?options=-csearch_path%3D{postgresql_schema}")
    bench.send(ALL)
    with writing(bench.broker, destination):
        until(lambda: bench.acknowledged > 0)
        postgresql.kill()
        until(lambda: bool(bench.reported))
        assert bench.waiting == BATCHES - bench.acknowledged
        postgresql.start()
        until(lambda: bench.acknowledged == BATCHES)
    assert stored_rows(destination.url) == rows_of(ALL)
    bench.assert_reported_once("cannot be reached")
    assert "hush" not in str(bench.reported)


def test_connections_cut_by_the_server_lose_nothing(
    bench: Bench, postgresql: PostgresqlServer, postgresql_schema: str
) -> None:
    destination = make_store(f"{postgresql.url}?options=-csearch_path%3D{postgresql_schema}")
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'chimbuko'"
    with writing(bench.broker, destination):
        for first in range(1, BATCHES, 40):
            bench.send(range(first, first + 40))
            administrate(postgresql, cut)
        until(lambda: bench.acknowledged == BATCHES)
    assert stored_rows(destination.url) == rows_of(ALL)


def test_a_full_disk_of_postgresql_delays_records(
    bench: Bench, postgresql: PostgresqlServer, postgresql_schema: str, disk: Path
) -> None:
    shutil.chown(disk, "postgres")
    for folder in (*disk.parents,)[:-2]:
        folder.chmod(0o755)
    administrate(postgresql, f"CREATE TABLESPACE {postgresql_schema} LOCATION '{disk}'")
    options = f"-csearch_path%3D{postgresql_schema}%20-cdefault_tablespace%3D{postgresql_schema}"
    destination = make_store(f"{postgresql.url}?options={options}")
    remount(disk, "size=700k")
    bench.send(ALL)
    with writing(bench.broker, destination):
        until(lambda: bool(bench.reported))
        assert bench.waiting == BATCHES - bench.acknowledged > 0
        remount(disk, "size=64m")
        until(lambda: bench.acknowledged == BATCHES)
    assert stored_rows(destination.url) == rows_of(ALL)
    bench.assert_reported_once("free some space")
    administrate(
        postgresql, f"DROP SCHEMA {postgresql_schema} CASCADE", f"DROP TABLESPACE {postgresql_schema}"
    )
