"""Webhooks and commands, real ones: they work, fail, hang, and come back."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.provenance.alerts import sinks
from chimbuko.provenance.alerts.sinks import (
    COMMAND_VARIABLE,
    URL_VARIABLE,
    AlertSender,
    Deliver,
    HookError,
    hooks_of,
)
from tests.patience import PATIENCE_S

SECRET = "T0ken-hush"


class Receiver(ThreadingHTTPServer):
    """Takes what is posted, and answers with ``code``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.code = 204
        self.got: list[bytes] = []
        self.kinds: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks/{SECRET}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.got.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.kinds.append(self.headers["Content-Type"])
        self.send_response(self.server.code)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def reported() -> list[str]:
    """What the user is told."""
    return []


def only(environment: dict[str, str]) -> tuple[str, Deliver]:
    ((name, deliver),) = hooks_of(environment).items()
    return name, deliver


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.005)


def test_a_webhook_gets_each_alert(receiver: Receiver, reported: list[str]) -> None:
    courier = AlertSender(*only({URL_VARIABLE: receiver.url}), reported.append)
    courier.send(b"{}")
    courier.send(b'{"call": 2}')
    courier.stop()
    assert receiver.got == [b"{}", b'{"call": 2}']
    assert set(receiver.kinds) == {"application/json"}
    assert reported == []


def test_a_command_gets_each_alert_on_its_input_and_no_password(
    tmp_path: Path, reported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMBUKO_STORE", f"postgresql://me:{SECRET}@db/x")
    script, out = tmp_path / "notify.py", tmp_path / "out put"
    script.write_text(
        "import os, sys\n"
        "open(sys.argv[1], 'a').write(sys.stdin.read() + str([n for n in os.environ if 'CHIMBUKO' in n]))\n"
    )
    courier = AlertSender(*only({COMMAND_VARIABLE: f"{sys.executable} {script} '{out}'"}), reported.append)
    courier.send(b'{"call": "$(touch x); 0:1:2:3"}')
    courier.stop()
    assert out.read_text() == '{"call": "$(touch x); 0:1:2:3"}[]'
    assert reported == []


def test_a_failing_webhook_is_tried_again_and_reported_of_once(
    receiver: Receiver, reported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "PAUSES_S", (0.01, 0.01))
    receiver.code = 503
    courier = AlertSender(*only({URL_VARIABLE: receiver.url}), reported.append)
    courier.send(b"1")
    courier.send(b"2")
    until(lambda: len(receiver.got) >= 6)
    receiver.code = 200
    courier.send(b"3")
    until(lambda: receiver.got[-1] == b"3")
    courier.stop()
    name = "the webhook at 127.0.0.1"
    assert reported[:2] == [
        f"{name} takes no alerts: it answers 503; trying again",
        f"{name} takes alerts again",
    ]
    assert reported[2:] == ["2 alerts were not taken by the webhook at 127.0.0.1"]
    assert SECRET not in str(reported)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({URL_VARIABLE: f"http://127.0.0.1:1/{SECRET}"}, "Connection refused"),
        ({URL_VARIABLE: f"http://127.0.0.1:x1/{SECRET}"}, "InvalidURL"),
        ({COMMAND_VARIABLE: f"/no/such/program {SECRET}"}, "No such file"),
        ({COMMAND_VARIABLE: f"{sys.executable} -c 'raise SystemExit(3)' {SECRET}"}, "exit code 3"),
    ],
)
def test_what_goes_wrong_is_said_without_secrets(environment: dict[str, str], reason: str) -> None:
    name, deliver = only(environment)
    with pytest.raises(HookError, match=reason) as caught:
        deliver(b"{}")
    assert SECRET not in f"{name} {caught.value}"


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "TIMEOUT_S", 0.1)
    _, deliver = only({COMMAND_VARIABLE: "sleep 600"})
    with pytest.raises(HookError, match="was ended"):
        deliver(b"{}")


def test_nobody_waits_for_a_hook_that_hangs(reported: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "STOP_S", 0.05)
    release = threading.Event()
    courier = AlertSender("slow one", lambda body: release.wait() and None, reported.append)
    for _ in range(sinks.MOST_WAITING + 11):
        courier.send(b"{}")
    courier.stop()
    release.set()
    assert reported == [f"{sinks.MOST_WAITING + 10} alerts were not taken by the slow one"]


@pytest.mark.parametrize(
    "environment",
    [
        {URL_VARIABLE: f"file:///etc/{SECRET}"},
        {URL_VARIABLE: f"https://me:{SECRET}@host/"},
        {URL_VARIABLE: SECRET},
        {COMMAND_VARIABLE: f"notify '{SECRET}"},
    ],
)
def test_what_can_never_work_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="not usable") as caught:
        hooks_of(environment)
    assert SECRET not in str(caught.value)
