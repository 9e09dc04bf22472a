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
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine

from chimbuko.config import AnalysisConfig
from chimbuko.messages import RecordBatch
from chimbuko.provenance.queries import Provenance
from chimbuko.provenance.store import open_for_reading, open_for_writing
from chimbuko.provenance.writer import Writer
from chimbuko.records import (
    CallRecord,
    CounterValue,
    Label,
    Message,
    StackFrame,
    StreamHealth,
    WindowCall,
    call_id,
)
from chimbuko.rundir import RunInfo

RUN_ID = "0123456789ab"
POSTGRESQL_PASSWORD = "hush"


def make_record(row: int = 0, **changes: Any) -> CallRecord:
    """A complete record of one call; the fields named in ``changes`` differ from the usual."""
    program, rank = changes.get("program", 0), changes.get("rank", 1)
    step, function = changes.get("step", 3), changes.get("function", "exchange(double *) [{halo.c} {12,1}]")
    event_id = changes.pop("id", call_id(program, rank, step, row))
    entry, exit_ = changes.get("entry_us", 1_000_000 + row), changes.get("exit_us", 1_009_000 + row)
    usual: dict[str, Any] = {
        "version": 1,
        "id": event_id,
        "revision": 0,
        "is_final": True,
        "label": Label.ANOMALY,
        "program": program,
        "rank": rank,
        "thread": 0,
        "node": "node7",
        "function": function,
        "entry_us": entry,
        "exit_us": exit_,
        "inclusive_us": exit_ - entry,
        "exclusive_us": exit_ - entry - 1_000,
        "step": step,
        "step_start_us": 1_000_000,
        "step_end_us": 2_000_000,
        "score": 7.5,
        "severity_us": 7_000.0,
        "expected_us": 1_000.0,
        "spread_us": 133.25,
        "seen": 412,
        "detector": "sstd",
        "incident_id": "",
        "depth": 1,
        "children": 1,
        "messages_count": 1,
        "call_stack": [
            StackFrame(event_id, function, entry, exit_, True),
            StackFrame("0:1:0:0", "main", 900_000, 0, False),
        ],
        "window": [
            WindowCall("0:1:3:90", "compute", entry - 500, entry - 10, "0:1:0:0", 1, False),
            WindowCall(event_id, function, entry, exit_, "0:1:0:0", 1, True),
            WindowCall("0:1:3:92", "MPI_Recv()", entry + 5, exit_ - 5, event_id, 2, False),
        ],
        "messages": [Message("RECV", 2, 1, 99, 8192, entry + 50, "0:1:3:92")],
        "counters": [CounterValue("MPI Recv bytes", 8192, entry + 60, "0:1:3:92")],
        "node_state": [CounterValue("monitoring: load", 3, 1_500_000, "")],
        "left_out": 2,
    }
    return CallRecord(**usual | changes)


def make_run(run_id: str = RUN_ID, **changes: Any) -> RunInfo:
    """A run that goes on."""
    usual: dict[str, Any] = {
        "id": run_id,
        "name": "heat",
        "command": ["mpirun", "-n", "4", "./heat"],
        "state": "running",
        "started_us": 1_000_000,
        "ended_us": 0,
        "exit_code": None,
        "host": "node7",
        "store_url": "sqlite:////runs/heat/provenance.sqlite",
        "config": AnalysisConfig(),
        "version": "0.1.0",
    }
    return RunInfo(**usual | changes)


def make_batch(sequence: int = 1, stream: str = "0:1", **parts: Any) -> RecordBatch:
    """A batch of one stream that holds nothing but its health, unless ``parts`` say otherwise."""
    usual: dict[str, Any] = {
        "records": [],
        "steps": [],
        "metadata": [],
        "health": StreamHealth(0, 1, "node7", "reading", sequence, 100, 4800, 48, 2, 0, {}),
        "dropped": {},
    }
    return RecordBatch(stream, sequence, **usual | parts)


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
    """An empty database of its own."""
    name = f"test_{uuid.uuid4().hex}"
    server = sqlalchemy.create_engine(postgresql_server, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    server.dispose()
    return postgresql_server.removesuffix("postgres") + name


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
