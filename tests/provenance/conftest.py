"""Stores and records for the tests of the provenance room."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import Engine

from chimbuko.messages import RecordBatch
from chimbuko.provenance.queries import Provenance
from chimbuko.provenance.store import open_for_reading, open_for_writing
from chimbuko.provenance.writer import Writer
from chimbuko.records import CallRecord
from chimbuko.rundir import RunInfo
from tests.sample_records import RUN_ID, make_batch, make_record, make_run

POSTGRESQL_PASSWORD = "hush"


@pytest.fixture(scope="session")
def batch() -> Callable[..., RecordBatch]:
    """Makes batches."""
    return make_batch


@pytest.fixture(scope="session")
def record() -> Callable[..., CallRecord]:
    """Makes records."""
    return make_record


@pytest.fixture(scope="session")
def run_info() -> Callable[..., RunInfo]:
    """Makes runs."""
    return make_run


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """A store of its own: an empty schema, which costs less than a database."""
    name = f"test_{uuid.uuid4().hex}"
    server = sqlalchemy.create_engine(postgresql_server)
    with server.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    server.dispose()
    return f"{postgresql_server}?options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def any_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store can be made, on each kind of database in turn."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgresql_url")
        return url
    return f"sqlite:///{tmp_path / 'provenance.sqlite'}"


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """Where an SQLite store can be made."""
    return f"sqlite:///{tmp_path / 'provenance.sqlite'}"


@pytest.fixture
def engine(store_url: str) -> Iterator[Engine]:
    """An empty SQLite store, open for writing."""
    engine = open_for_writing(store_url)
    yield engine
    engine.dispose()


@pytest.fixture
def writer(engine: Engine) -> Writer:
    """Writes the run ``RUN_ID``."""
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run())
    return writer


@pytest.fixture
def provenance(writer: Writer, store_url: str) -> Iterator[Provenance]:
    """Reads what ``writer`` has written, over a connection of its own that cannot write."""
    engine = open_for_reading(store_url)
    yield Provenance(engine)
    engine.dispose()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """URL of a private PostgreSQL server with an empty database ``postgres``."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not programs or shutil.which("runuser") is None or os.geteuid() != 0:
        pytest.skip("no PostgreSQL server to start: it takes Debian's package postgresql, and root")
    # Not under pytest's folder, which only its owner may enter.
    folder = Path(tempfile.mkdtemp(prefix="chimbuko-postgresql-"))
    password = folder / "password"
    password.write_text(POSTGRESQL_PASSWORD)
    shutil.chown(folder, "postgres")
    shutil.chown(password, "postgres")
    data = folder / "data"
    control = ["runuser", "-u", "postgres", "--", str(programs[-1] / "pg_ctl"), "-D", str(data), "-w"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = f"-c listen_addresses=127.0.0.1 -c port={port} -c fsync=off -k {folder}"
    try:
        initialise = ["-o", f"-A scram-sha-256 -E UTF8 --locale=C.UTF-8 --pwfile={password}", "initdb"]
        subprocess.run([*control, *initialise], check=True, capture_output=True, cwd="/")
        start = ["-o", settings, "-l", str(folder / "log"), "start"]
        subprocess.run([*control, *start], check=True, stdout=subprocess.DEVNULL, cwd="/")
        yield f"postgresql+psycopg://postgres:{POSTGRESQL_PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=False, capture_output=True, cwd="/")
        shutil.rmtree(folder)
