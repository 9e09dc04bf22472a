"""Broker and database of a site over TLS, with certificates of the site's own authority."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import sqlalchemy

from chimbuko.provenance.manage.inventory import bytes_elsewhere
from chimbuko.runtime.protocol.broker import PrivateBroker
from tests.calldata import no_loss
from tests.encrypted import Certificates, TlsDoor
from tests.integration.conftest import Start
from tests.postgresql import NotInstalled, PostgresqlServer
from tests.viz.asking import EventSocket, fetch
from tests.viz.conftest import dashboard
from tests.viz.made_run import make_run

PROGRAM = "def work():\n    pass\nfor _ in range(500):\n    work()\n"
CALLS = 502


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    try:
        return Certificates(tmp_path_factory.mktemp("certificates"))
    except FileNotFoundError as reason:
        pytest.skip(str(reason))


@pytest.fixture
def door(certificates: Certificates, tmp_path: Path) -> Iterator[tuple[TlsDoor, str]]:
    """A broker that is reached over TLS only, and its URL without the authority."""
    with PrivateBroker(tmp_path / "broker.log", "127.0.0.1") as broker:
        behind = urlsplit(broker.url_elsewhere)
        door = TlsDoor(certificates, behind.port or 0)
        yield door, f"rediss://{behind.username}:{behind.password}@127.0.0.1:{door.port}/0"
        door.close()


def traced(folder: Path) -> list[str]:
    """A program of ``CALLS`` calls."""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    return ["--", sys.executable, "-m", "chimbuko", "trace", str(script)]


def test_a_run_with_broker_and_database_over_tls(
    certificates: Certificates, door: tuple[TlsDoor, str], start: Start, tmp_path: Path
) -> None:
    try:
        database = PostgresqlServer(certificates)
    except NotInstalled as reason:
        pytest.skip(str(reason))
    encrypted, url = door
    store = f"{database.url}?sslmode=verify-full&sslrootcert={certificates.authority}"
    secrets = {
        "CHIMBUKO_BROKER": f"{url}?ssl_ca_certs={certificates.authority}",
        "CHIMBUKO_STORE": store,
    }
    try:
        run = start(*traced(tmp_path), environment=os.environ | secrets)
        assert run.end() == 0, run.output
        assert no_loss(run.output)
        assert [stream.calls for stream in run.health] == [CALLS]
        (data,) = (line for line in run.lines if line.startswith("Data: "))
        assert f" MB in {run.info.store_url}" in data
        of_rows = bytes_elsewhere(store, run.info.id)
        assert run.info.stored_bytes > of_rows > 1000 and f"{of_rows / 1e6:.2f} MB in" in data
        # Server, writer, agent and launcher.
        assert encrypted.taken >= 4
        engine = sqlalchemy.create_engine(store)
        with engine.connect() as connection:
            assert connection.exec_driver_sql(
                "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            ).scalar()
        engine.dispose()
    finally:
        database.remove()


def test_an_authority_that_is_not_known_is_one_line_that_says_what_to_do(
    door: tuple[TlsDoor, str], start: Start, tmp_path: Path
) -> None:
    encrypted, url = door
    run = start(*traced(tmp_path), environment=os.environ | {"CHIMBUKO_BROKER": url})
    assert run.end() == 0
    (said,) = [line for line in run.lines if "the program runs without analysis: " in line]
    assert "certificate verify failed" in said and "ssl_ca_certs=" in said
    assert urlsplit(url).password not in run.output and encrypted.taken == 0


@pytest.mark.thorough
def test_long_questions_over_tls(
    certificates: Certificates, door: tuple[TlsDoor, str], tmp_path: Path
) -> None:
    """Celery, its worker, the queue of Socket.IO, and what looks after them; the worker is the site's."""
    encrypted, url = door
    answers = tmp_path / "answers"
    answers.mkdir()
    shared = {
        "CHIMBUKO_JOBS_BROKER": f"{url}?ssl_ca_certs={certificates.authority}",
        "CHIMBUKO_JOBS_FOLDER": str(answers),
    }
    made = make_run(tmp_path / "heat")
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "chimbuko.viz.jobs.worker", "worker"]
    with (
        subprocess.Popen([*command, "--loglevel", "ERROR"], env=os.environ | shared) as worker,
        dashboard(made, environment=shared) as process,
        EventSocket(process.base) as page,
    ):
        try:
            job = page.ask("export", {"form": "v2"})
            reported = page.end(job)
            assert reported["name"] == "heat-v2.zip", reported
            assert len(fetch(process.base, job).content) == reported["bytes"]
        finally:
            worker.terminate()
    assert encrypted.taken >= 4
