"""A dashboard that others reach: over TLS, by other names, never without a token that cannot be guessed."""

from __future__ import annotations

import http.client
import json
import os
import platform
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import requests

from chimbuko.core.errors import ConfigError
from chimbuko.viz.http import server
from chimbuko.viz.http.listening import SHORTEST_TOKEN, TOKEN_VARIABLE, Front
from chimbuko.viz.http.server import serving
from tests.encrypted import Certificates
from tests.patience import PATIENCE_S
from tests.sockets import listened_on
from tests.thorough import first
from tests.viz.conftest import TOKEN, dashboard
from tests.viz.made_run import MadeRun

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    try:
        return Certificates(tmp_path_factory.mktemp("certificates"))
    except FileNotFoundError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("processes", first(1, [2, 1]))
def test_the_page_over_tls(finished: MadeRun, certificates: Certificates, processes: int) -> None:
    words = ["--certificate", str(certificates.certificate), "--key", str(certificates.key)]
    with dashboard(finished, words=[*words, "--processes", str(processes)]) as process:
        assert process.url.startswith(f"https://127.0.0.1:{process.port}/?token=")
        # Somebody who says nothing keeps nobody out.
        with socket.create_connection(("127.0.0.1", process.port)):
            answer = requests.get(
                process.url, verify=str(certificates.authority), allow_redirects=False, timeout=PATIENCE_S
            )
        assert answer.status_code == 303 and "Secure" in answer.headers["Set-Cookie"]
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(process.url, timeout=PATIENCE_S)
        refused = requests.get(process.base, verify=str(certificates.authority), timeout=PATIENCE_S)
        assert refused.status_code == 401
        context = ssl.create_default_context(cafile=certificates.authority)
        with (
            socket.create_connection(("127.0.0.1", process.port), timeout=PATIENCE_S) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as events,
        ):
            upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            asked = f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: localhost\r\n{upgrade}{key}"
            events.sendall(f"{asked}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
            assert events.recv(1000).startswith(b"HTTP/1.1 101")
        code, errors = process.stop()
        assert (code, errors) == (0, "")


def _await_the_end(connection: socket.socket) -> None:
    with suppress(ConnectionError):
        while connection.recv(1 << 16):
            pass


def test_half_a_record_of_tls_holds_no_thread_and_no_descriptor(
    finished: MadeRun, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REST_S", 0.2)
    front = Front(certificate=certificates.certificate, key=certificates.key)
    context = ssl.create_default_context(cafile=certificates.authority)
    request = b"POST /api/v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9900000\r\n\r\n"
    with serving(finished.directory, 0, TOKEN, None, front=front) as url, ExitStack() as open_sockets:
        address = ("127.0.0.1", urlsplit(url).port or 0)
        threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            silent = open_sockets.enter_context(socket.create_connection(address, timeout=PATIENCE_S))
            silent.sendall(b"no TLS")
            _await_the_end(silent)
            asking = context.wrap_socket(
                socket.create_connection(address, timeout=PATIENCE_S), server_hostname="127.0.0.1"
            )
            asking.sendall(request)
            raw = open_sockets.enter_context(socket.socket(fileno=asking.detach()))
            raw.settimeout(PATIENCE_S)
            raw.sendall(b"\x17\x03\x03\x40\x00half")
            _await_the_end(raw)
        assert threading.active_count() <= threads + 2
        # Beside those of the clients, which are of this process, too.
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 40 + 4


def test_all_addresses_of_a_machine(finished: MadeRun) -> None:
    words = ["--bind", "0.0.0.0", "--public-url", "https://site.example/heat/"]
    with dashboard(finished, words=words) as process:
        assert process.url == f"https://site.example/heat/?token={quote(TOKEN, safe='')}"
        ((_, port),) = listened_on(process.process.pid)
        wanted = {"site.example": 200, platform.node(): 200, "10.1.2.3:80": 200, "evil.example": 403}
        for name, status in wanted.items():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", "/api/v1/run", headers=BEARER | {"Host": name})
            assert connection.getresponse().status == status, name
            connection.close()


@pytest.mark.parametrize("front", [Front(bind="0.0.0.0"), Front(public_url="https://site.example/")])
def test_a_token_that_can_be_guessed_is_refused(
    front: Front, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = tmp_path / "page-token"
    monkeypatch.setenv(TOKEN_VARIABLE, "x" * (SHORTEST_TOKEN - 1))
    with pytest.raises(ConfigError, match="or none for one of ours"):
        front.token(kept)
    assert Front().token(kept) == "x" * (SHORTEST_TOKEN - 1)
    monkeypatch.setenv(TOKEN_VARIABLE, "x" * SHORTEST_TOKEN)
    assert front.token(kept) == "x" * SHORTEST_TOKEN and not kept.exists()
    monkeypatch.delenv(TOKEN_VARIABLE)
    assert len(front.token(kept)) >= SHORTEST_TOKEN
    assert front.token(kept) == Front().token(kept) != front.token(tmp_path / "another run")


@pytest.mark.parametrize(
    ("words", "said"),
    first(
        1,
        [
            (["--certificate", "no.crt"], "no.crt: no certificate with its key, both in PEM"),
            (["--key", "no.key"], "a key without a certificate"),
            (["--public-url", "site.example"], "site.example: not the address of a page"),
            (["--bind", "no.such.interface.invalid"], "neither an address, nor a network interface"),
        ],
    ),
)
def test_what_cannot_be_used_is_one_line(finished: MadeRun, words: list[str], said: str) -> None:
    command = [sys.executable, "-m", "chimbuko", "view", str(finished.directory.path), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_a_run_has_its_dashboard_over_tls_from_the_first_visitor_on(
    certificates: Certificates, tmp_path: Path
) -> None:
    """Its process is started by the launcher, which listens."""
    words = ["--dashboard-certificate", certificates.certificate, "--dashboard-key", certificates.key]
    command = [sys.executable, "-m", "chimbuko", "run", *words, "-o", tmp_path / "run", "--"]
    with subprocess.Popen([*command, "cat"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdin is not None and run.stderr is not None
        url = ""
        while "dashboard: " not in url:
            url = run.stderr.readline()
            assert url, "it has ended"
        url = (tmp_path / "run" / "dashboard").read_text()
        assert url.startswith("https://")
        answer = requests.get(url, verify=str(certificates.authority), timeout=PATIENCE_S)
        assert answer.status_code == 200 and urlsplit(answer.url).path == "/r/run"
        run.stdin.close()
        run.stderr.read()
    assert run.returncode == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["state"] == "finished"
