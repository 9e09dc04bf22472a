"""Stores and records for the tests of the provenance room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Engine

from chimbuko.core.calls.record import CallRecord
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import RunInfo
from tests.provenance import exported
from tests.provenance.exported import ExportedRun
from tests.sample_records import RUN_ID, make_batch, make_record, make_run

if TYPE_CHECKING:
    from tests.postgresql import PostgresqlServer


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


@pytest.fixture(scope="module")
def private_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateBroker]:
    """A broker of our own."""
    with PrivateBroker(tmp_path_factory.mktemp("broker") / "broker.log") as broker:
        yield broker


@pytest.fixture
def broker(private_broker: PrivateBroker) -> Iterator[RunBroker]:
    """A connection of the run to it, which knows nothing yet."""
    with connect(private_broker.keeper_url) as client:
        client.flushall()
        yield RunBroker(client, RUN_ID)


@pytest.fixture(params=["sqlite", "postgresql"])
def any_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where records can be stored, on each kind of database in turn."""
    return _url(request, tmp_path, "postgresql_url")


@pytest.fixture(params=["sqlite", "postgresql"])
def any_empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store can be made, on each kind of database in turn."""
    return _url(request, tmp_path, "postgresql_schema")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_store_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store on each kind of database in turn, for a file whose tests fill it once and only read it."""
    if request.param == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        return server.new_store()
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'provenance.sqlite'}"


def _url(request: pytest.FixtureRequest, folder: Path, of_server: str) -> str:
    if request.param == "postgresql":
        url: str = request.getfixturevalue(of_server)
        return url
    return f"sqlite:///{folder / 'provenance.sqlite'}"


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


@pytest.fixture
def exported_run(writer: Writer, provenance: Provenance, tmp_path: Path) -> ExportedRun:
    """A run that has all that exports show."""
    exported.store(writer)
    return ExportedRun(provenance, tmp_path)
