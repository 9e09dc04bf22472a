"""No password, token or address with one is seen by others, or kept, over a whole run."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import requests
import sqlalchemy

from chimbuko.core.calls.schema import Label
from chimbuko.provenance.alerts.alerting import CallAlert
from chimbuko.provenance.alerts.sinks import COMMAND, WEBHOOK
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE
from tests.integration.conftest import Run, Start, command_line, descendants
from tests.patience import PATIENCE_S
from tests.postgresql import PASSWORD, PostgresqlServer

HOOK_TOKEN = "H00k-T0ken"
LEAST_ALERTS = 3


class Receiver(ThreadingHTTPServer):
    """Takes alerts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.alerts: list[CallAlert] = []


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.alerts.append(msgspec.json.decode(body, type=CallAlert))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class CommandLines(threading.Thread):
    """All command lines of a process and those below it that anybody could see meanwhile."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self._pid = pid
        self._stop_asked = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._stop_asked.wait(0.05):
            self.seen |= {command_line(pid) for pid in (self._pid, *descendants(self._pid))}

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


def files_of(run: Run) -> dict[str, bytes]:
    """What the run has left, without the files for its owner alone."""
    directory = RunDirectory(run.folder)
    secret_files = directory.store_url_path, directory.page_token_path
    assert {path.stat().st_mode & 0o777 for path in secret_files} == {0o600}
    paths = (path for path in run.folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in paths if path not in secret_files}


def dump_of(server: PostgresqlServer) -> str:
    """Each row of the store as text."""
    engine = sqlalchemy.create_engine(server.url)
    with engine.connect() as connection:
        names = sqlalchemy.inspect(engine).get_table_names()
        rows = [connection.exec_driver_sql(f"SELECT t::text FROM {name} AS t").all() for name in names]
    engine.dispose()
    return str(rows)


def test_secrets_are_nowhere_and_alerts_arrive(
    start: Start, heat4: Path, postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    reported = tmp_path / "told"
    script = tmp_path / "notify"
    script.write_text(f"#!/bin/sh\ncat >> {reported}\n")
    script.chmod(0o700)
    with receiving() as receiver:
        environment = {
            STORE_VARIABLE: postgresql.url,
            WEBHOOK.variable: f"http://127.0.0.1:{receiver.server_port}/{HOOK_TOKEN}",
            COMMAND.variable: str(script),
        }
        run = start(
            *("--trace", heat4 / "*.bp", "--dashboard", "--alert", "5ms", "--keep"), environment=environment
        )
        lines = CommandLines(run.process.pid)
        url = run.dashboard_url()
        assert RunDirectory(run.folder).dashboard_path.stat().st_mode & 0o777 == 0o600
        run.wait_for_line("dashboard stays until Ctrl-C: the address is in ")
        token = re.search(r"token=([\w-]+)", url)
        assert token
        assert requests.get(url, timeout=PATIENCE_S).status_code == 200
        password = urlsplit(RunDirectory(run.folder).read_broker_url()).password
        assert password
        secrets_of_processes = [PASSWORD, HOOK_TOKEN, token[1], password]
        run.interrupt()
        assert run.end() == 0, run.output
        lines.stop()
    for module in ("chimbuko.provenance.service", "chimbuko.viz"):
        assert any(module in line for line in lines.seen)
    for secret in secrets_of_processes:
        assert not any(secret in line for line in lines.seen), "a process list has a secret"
        for path, content in files_of(run).items():
            assert secret.encode() not in content, f"{path} has a secret"
        assert secret not in dump_of(postgresql)
    # The output of a job can often be read by others.
    assert not any(secret in run.output for secret in secrets_of_processes)
    assert not RunDirectory(run.folder).dashboard_path.exists()
    secret_file = RunDirectory(run.folder).store_url_path
    assert (secret_file.read_text(), secret_file.stat().st_mode & 0o077) == (postgresql.url, 0)
    assert_alerts_arrived(run, receiver.alerts, reported)


def assert_alerts_arrived(run: Run, alerts: list[CallAlert], reported: Path) -> None:
    assert len(alerts) >= LEAST_ALERTS
    assert len({alert.call for alert in alerts}) == len(alerts)
    with open_run(RunDirectory(run.folder)) as provenance:
        calls = {alert.call: provenance.calls.record(alert.call) for alert in alerts}
    for alert in alerts:
        call = calls[alert.call]
        # At the end calls are judged once more.
        assert call.is_relabelled or (call.label == Label.ANOMALY and call.severity_us >= 5000)
        assert (alert.function, alert.rank, alert.step) == (call.function, call.rank, call.step)
        assert "token" not in alert.dashboard
        assert f"/r/{run.info.id}/call/" in alert.dashboard
    assert reported.read_text().count('"kind":"call"') == len(alerts)
