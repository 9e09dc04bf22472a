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
from chimbuko.provenance.alerts import alertservice, sinks
from chimbuko.provenance.alerts.alertservice import SinkQueue
from chimbuko.provenance.alerts.sinks import COMMAND, SINKS, WEBHOOK, Sink, SinkError, sinks_named, sinks_of
from tests.patience import PATIENCE_S

SECRET = "T0ken-hush"


class Receiver(ThreadingHTTPServer):
    """Takes what is posted, and answers with ``code``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.code = 204
        self.elsewhere = ""
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
        if self.server.elsewhere:
            self.send_header("Location", self.server.elsewhere)
        self.end_headers()

    def do_GET(self) -> None:
        self.server.got.append(b"asked for more")
        self.send_error(404)

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
    """Lines that the user gets."""
    return []


def only(environment: dict[str, str]) -> Sink:
    (sink,) = sinks_of(environment)
    return sink


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.005)


def test_a_webhook_gets_each_alert(receiver: Receiver, reported: list[str]) -> None:
    alerts = SinkQueue(only({WEBHOOK.variable: receiver.url}), reported.append)
    alerts.put(b"{}")
    alerts.put(b'{"call": 2}')
    alerts.stop()
    assert receiver.got == [b"{}", b'{"call": 2}']
    assert set(receiver.kinds) == {"application/json"}
    assert reported == []


def test_a_sink_that_fails_in_another_way_than_it_says_is_asked_again(
    reported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alertservice, "PAUSES_S", (0.0,))
    got: list[bytes] = []

    def take(body: bytes) -> None:
        if body not in got:
            got.append(body)
            raise RuntimeError("it was not thought of")

    alerts = SinkQueue(Sink("odd one", take), reported.append)
    alerts.put(b"{}")
    until(lambda: len(reported) == 2)
    alerts.stop()
    assert got == [b"{}"]
    assert reported == [
        "the odd one takes no alerts: it was not thought of; trying again",
        "the odd one takes alerts again",
    ]


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_webhook_does_not_choose_what_else_is_asked(receiver: Receiver, code: int) -> None:
    """Whoever answers there could have a node of the cluster ask what only that can reach."""
    receiver.code, receiver.elsewhere = code, receiver.url
    with pytest.raises(SinkError, match=f"answers {code}; give the address that it leads to"):
        only({WEBHOOK.variable: receiver.url}).take(b"1")
    assert receiver.got == [b"1"]


def test_a_command_gets_each_alert_on_its_input_and_no_password(
    tmp_path: Path, reported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMBUKO_STORE", f"postgresql://me:{SECRET}@db/x")
    script, out = tmp_path / "notify.py", tmp_path / "out put"
    script.write_text(
        "import os, sys\n"
        "open(sys.argv[1], 'a').write(sys.stdin.read() + str([n for n in os.environ if 'CHIMBUKO' in n]))\n"
    )
    alerts = SinkQueue(only({COMMAND.variable: f"{sys.executable} {script} '{out}'"}), reported.append)
    alerts.put(b'{"call": "$(touch x); 0:1:2:3"}')
    alerts.stop()
    assert out.read_text() == '{"call": "$(touch x); 0:1:2:3"}[]'
    assert reported == []


def test_a_failing_webhook_is_tried_again_and_reported_of_once(
    receiver: Receiver, reported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alertservice, "PAUSES_S", (0.01, 0.01))
    receiver.code = 503
    alerts = SinkQueue(only({WEBHOOK.variable: receiver.url}), reported.append)
    alerts.put(b"1")
    alerts.put(b"2")
    until(lambda: len(receiver.got) >= 6)
    receiver.code = 200
    alerts.put(b"3")
    until(lambda: receiver.got[-1] == b"3")
    alerts.stop()
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
        ({WEBHOOK.variable: f"http://127.0.0.1:1/{SECRET}"}, "Connection refused"),
        ({WEBHOOK.variable: f"http://127.0.0.1:x1/{SECRET}"}, "InvalidURL"),
        ({COMMAND.variable: f"/no/such/program {SECRET}"}, "No such file"),
        ({COMMAND.variable: f"{sys.executable} -c 'raise SystemExit(3)' {SECRET}"}, "exit code 3"),
    ],
)
def test_what_goes_wrong_is_said_without_secrets(environment: dict[str, str], reason: str) -> None:
    sink = only(environment)
    with pytest.raises(SinkError, match=reason) as caught:
        sink.take(b"{}")
    assert SECRET not in f"{sink.name} {caught.value}"


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "TIMEOUT_S", 0.1)
    sink = only({COMMAND.variable: "sleep 600"})
    with pytest.raises(SinkError, match="was ended"):
        sink.take(b"{}")


def test_nobody_waits_for_a_sink_that_hangs(reported: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alertservice, "STOP_S", 0.05)
    release = threading.Event()
    alerts = SinkQueue(Sink("slow one", lambda body: release.wait() and None), reported.append)
    for _ in range(alertservice.MOST_WAITING + 11):
        alerts.put(b"{}")
    alerts.stop()
    release.set()
    assert reported == [f"{alertservice.MOST_WAITING + 10} alerts were not taken by the slow one"]


@pytest.mark.parametrize(
    "environment",
    [
        {WEBHOOK.variable: f"file:///etc/{SECRET}"},
        {WEBHOOK.variable: f"https://me:{SECRET}@host/"},
        {WEBHOOK.variable: SECRET},
        {COMMAND.variable: f"notify '{SECRET}"},
    ],
)
def test_what_can_never_work_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="not usable") as caught:
        sinks_of(environment)
    assert SECRET not in str(caught.value)


def test_each_kind_of_sink_has_names_of_its_own() -> None:
    assert len({kind.option for kind in SINKS}) == len({kind.variable for kind in SINKS}) == len(SINKS)
    environment = {kind.variable: f"of {kind.option}" for kind in SINKS} | {"HOME": "/"}
    assert sinks_named(environment) == {kind.variable: f"of {kind.option}" for kind in SINKS}
    assert sinks_of(sinks_named({})) == []
