"""The dashboard as a process."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.cli.inspect.view import starting_at
from chimbuko.viz.http import server
from chimbuko.viz.http.app import STATIC
from chimbuko.viz.http.listening import Front
from chimbuko.viz.http.server import serving
from tests.patience import PATIENCE_S
from tests.viz.conftest import TOKEN, dashboard
from tests.viz.made_run import MadeRun


def ask(port: int, path: str, **headers: str) -> tuple[int, str]:
    """Status and body of a GET."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_it_answers_when_it_says_so_and_ends_when_told(finished: MadeRun) -> None:
    with dashboard(finished) as process:
        assert process.url.startswith(f"http://127.0.0.1:{process.port}/?token=")
        assert ask(process.port, "/api/v1/run")[0] == 401
        status, body = ask(process.port, "/api/v1/run", Authorization=f"Bearer {TOKEN}")
        assert status == 200 and '"name":"heat"' in body
        assert ask(process.port, process.url.partition(str(process.port))[2])[0] == 303
        code, errors = process.stop()
        assert code == 0
        assert TOKEN not in errors and errors == ""


def test_it_starts_without_the_compiler() -> None:
    """Which takes a third of the time; only what shows how runtimes are distributed needs it."""
    code = "import sys, chimbuko.viz.__main__; print('numba' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "False\n"


def test_it_listens_on_the_loopback_only(finished: MadeRun) -> None:
    with dashboard(finished) as process:
        lines = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        listening = [line.split() for line in lines.splitlines() if f":{process.port:04X} " in line]
        assert {line[1] for line in listening if line[3] == "0A"} == {f"0100007F:{process.port:04X}"}


def test_a_port_that_is_taken_is_one_line_and_exit_4(finished: MadeRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with dashboard(finished, port=port) as process:
            assert process.url == ""
            _, errors = process.process.communicate(timeout=PATIENCE_S)
            assert process.process.returncode == 4
            assert errors.count("\n") == 1
            assert str(port) in errors and "--port" in errors
        result = CliRunner().invoke(main, ["view", str(finished.directory.path), "--port", str(port)])
        assert result.exit_code == 4


@pytest.mark.parametrize("port", ["70000", "-1"])
def test_a_port_that_is_none_is_refused(finished: MadeRun, port: str) -> None:
    for words in (["view", str(finished.directory.path)], ["run", "--trace", "*.bp"], ["serve"]):
        result = CliRunner().invoke(main, [*words, "--port", port])
        assert result.exit_code == 2
        assert "'--port'" in result.output


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["view", str(tmp_path)])
    assert result.exit_code == 2
    assert "not the folder of a run" in result.output


def test_view_prints_where_its_address_is_and_ends_with_ctrl_c(finished: MadeRun) -> None:
    command = [sys.executable, "-m", "chimbuko", "view", str(finished.directory.path)]
    process = subprocess.Popen(
        [*command, "--open", "/r/heat?sel=0:1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        file = Path(process.stdout.readline().strip().removeprefix("the address is in "))
        assert file.stat().st_mode & 0o777 == 0o600
        url = file.read_text()
        root, _, rest = url.partition("/r/heat?sel=0:1&token=")
        assert root.startswith("http://127.0.0.1:") and rest
        port = int(root.rpartition(":")[2])
        assert ask(port, "/api/v1/health", Authorization=f"Bearer {rest}")[0] == 200
        process.send_signal(2)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert errors == "" and not file.parent.exists()
    finally:
        process.kill()
        process.communicate()


def test_where_an_address_begins() -> None:
    url = "http://127.0.0.1:80/?token=t"
    assert starting_at(url, "/") == "http://127.0.0.1:80/?token=t"
    assert starting_at(url, "r/heat") == "http://127.0.0.1:80/r/heat?token=t"
    assert starting_at(url, "/r/heat?n=3") == "http://127.0.0.1:80/r/heat?n=3&token=t"


def test_the_page_is_where_the_wheel_takes_it_from() -> None:
    assert STATIC.name == "static" and STATIC.parent.name == "viz"


@pytest.mark.parametrize("request_line", [b"nonsense", b"GET / HTTP/nine", b"GET / x / HTTP/1.1"])
def test_what_is_no_request_is_refused_as_all_else_is(finished: MadeRun, request_line: bytes) -> None:
    with serving(finished.directory, 0, TOKEN, None) as url:
        address = url.removeprefix("http://").partition("/")[0].split(":")
        with (
            socket.create_connection((address[0], int(address[1]))) as connection,
            connection.makefile("rb") as answer,
        ):
            connection.sendall(request_line + b"\r\n\r\n")
            text = answer.read().decode()
    # To what names no version of HTTP there is an answer without a head.
    body = json.loads(text.rpartition("\r\n\r\n")[2])
    assert body["ok"] is False and body["status"] == 400


def test_connections_without_a_request_hold_few_threads(
    finished: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_IDLE", 8)
    with serving(finished.directory, 0, TOKEN, None) as url:
        port = urlsplit(url).port or 0
        before = threading.active_count()
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        # The oldest are closed, and who has the token is answered.
        assert all(one.recv(1) == b"" for one in idle[:50])
        assert threading.active_count() < before + 30
        assert ask(port, "/api/v1/run", Authorization=f"Bearer {TOKEN}")[0] == 200
        for one in idle:
            one.close()


def test_who_says_nothing_is_sent_away_without_a_line_in_the_log(
    finished: MadeRun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 0.2)
    with serving(finished.directory, 0, TOKEN, None) as url:
        port = urlsplit(url).port or 0
        for said in (b"", b"GET /api/v1/run HTTP/1.1\r\nHost: localhost\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as one:
                one.sendall(said)
                assert one.recv(1) == b""
    assert not caplog.messages


def test_who_sends_a_request_too_slowly_is_sent_away(
    finished: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WHOLE_REQUEST_S", 1.0)
    with serving(finished.directory, 0, TOKEN, None) as url:
        port = urlsplit(url).port or 0
        with socket.create_connection(("127.0.0.1", port), timeout=0.1) as slow:
            slow.sendall(b"GET /api/v1/run HTTP/1.1\r\nX-Slow: ")
            ends_s = time.monotonic() + PATIENCE_S
            with pytest.raises(ConnectionError):
                while time.monotonic() < ends_s:
                    slow.sendall(b"x")
                    with suppress(TimeoutError):
                        if slow.recv(1) == b"":
                            raise ConnectionResetError


def test_who_was_refused_and_keeps_the_connection_holds_no_thread(finished: MadeRun) -> None:
    with serving(finished.directory, 0, TOKEN, None) as url:
        port = urlsplit(url).port or 0
        before = threading.active_count()
        request = b"POST /api/v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9900000\r\n\r\n" + bytes(
            20_000
        )
        refused = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        for one in refused:
            one.sendall(request + bytes(20_000))
        for one in refused:
            with one, one.makefile("rb") as answer:
                assert b" 401 " in answer.readline()
                # To the end: the server has gone, and left the body that does not come.
                assert answer.read()
        assert threading.active_count() <= before + 2


def test_the_end_waits_for_what_is_being_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LAST_QUESTIONS_S", 0.01)
    monkeypatch.setattr(server, "MOST_LAST_QUESTIONS_S", PATIENCE_S)
    is_asked, may_answer = threading.Event(), threading.Event()

    def app(environ: object, start_response: Callable[..., object]) -> list[bytes]:
        is_asked.set()
        may_answer.wait(PATIENCE_S)
        start_response("200 OK", [])
        return [b"late"]

    answers: list[tuple[int, str]] = []
    with Front().listen(0) as listening, server._running(Front(), listening, app) as running:
        running.let_pages_ask()
        asking = threading.Thread(target=lambda: answers.append(ask(running.port, "/")))
        asking.start()
        is_asked.wait(PATIENCE_S)
        ending = threading.Thread(target=running.let_pages_ask)
        ending.start()
        ending.join(0.2)
        assert ending.is_alive()
        may_answer.set()
        ending.join()
        asking.join()
    assert answers == [(200, "late")]
