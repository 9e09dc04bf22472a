"""The dashboard behind a real Jupyter server: its launcher starts it, and nobody needs another token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from tests.patience import PATIENCE_S
from tests.sockets import free_ports
from tests.viz.asking import wait_until
from tests.viz.conftest import dashboard
from tests.viz.made_run import RANKS, MadeRun

TOKEN = "of-jupyter"
PORTAL = {"Host": "hub.example", "X-Forwarded-Proto": "https"}
"""What a portal in front of Jupyter passes on."""


@pytest.fixture
def jupyter(tmp_path: Path) -> Iterator[str]:
    """The address of a Jupyter server in the folder above ``chimbuko-runs``."""
    [port] = free_ports(1)
    options = {"ip": "127.0.0.1", "port": port, "port_retries": 0, "open_browser": False, "allow_root": True}
    options |= {"base_url": "/user/me/", "allow_remote_access": True, "root_dir": str(tmp_path)}
    settings = {"ServerApp": options, "IdentityProvider": {"token": TOKEN}}
    (tmp_path / "jupyter_server_config.json").write_text(json.dumps(settings))
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }
    with (tmp_path / "log").open("w") as log:
        words = [sys.executable, "-m", "jupyter_server"]
        server = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    address = f"127.0.0.1:{port}/user/me/"
    try:
        for _ in range(300):
            assert server.poll() is None, (tmp_path / "log").read_text()
            try:
                requests.get(f"http://{address}api", timeout=5)
                break
            except requests.ConnectionError:
                time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait(60)


def signed_in(jupyter: str) -> dict[str, str]:
    """What a browser sends: programs that show Jupyter's token may come from anywhere."""
    login = requests.get(f"http://{jupyter}api/status?token={TOKEN}", headers=PORTAL, timeout=PATIENCE_S)
    cookies = [cookie.partition(";")[0] for cookie in login.raw.headers.getlist("Set-Cookie")]
    return {"Cookie": "; ".join(cookies), **PORTAL}


def opened(events: str, headers: dict[str, str], until: bytes) -> bytes:
    """What comes first of a web socket."""
    host, _, path = events.partition("/")
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    fields = headers | upgrade | {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    lines = [f"GET /{path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    with socket.create_connection(
        (host.partition(":")[0], int(host.partition(":")[2])), timeout=PATIENCE_S
    ) as raw:
        raw.sendall("\r\n".join([*lines, "", ""]).encode())
        found = b""
        while until not in found and (more := raw.recv(1000)):
            found += more
    return found


def test_the_entry_is_found_by_jupyter_server_proxy() -> None:
    (entry,) = entry_points(group="jupyter_serverproxy_servers", name="chimbuko")
    server = entry.load()()
    assert server["environment"]["CHIMBUKO_TOKEN"] in server["request_headers_override"]["Authorization"]
    # Each Jupyter server has a secret of its own.
    assert server["environment"] != entry.load()()["environment"]


@pytest.mark.thorough
def test_the_launcher_opens_the_runs_of_its_folder(jupyter: str, finished: MadeRun, tmp_path: Path) -> None:
    pytest.importorskip("jupyter_server_proxy")
    mine = signed_in(jupyter)
    entries = requests.get(
        f"http://{jupyter}server-proxy/servers-info", headers=mine, timeout=PATIENCE_S
    ).json()
    (entry,) = (one for one in entries["server_processes"] if one["name"] == "chimbuko")
    assert entry["launcher_entry"]["title"] == "Chimbuko"
    page = requests.get(f"http://{jupyter}chimbuko/", headers=mine, timeout=PATIENCE_S)
    assert page.status_code == 200 and "<script" in page.text

    def listed() -> list[dict[str, str]]:
        answer = requests.get(f"http://{jupyter}chimbuko/api/v1/runs", headers=mine, timeout=PATIENCE_S)
        runs: list[dict[str, str]] = answer.json()["runs"]
        return runs

    assert listed() == []
    (tmp_path / "chimbuko-runs" / "made").symlink_to(finished.directory.path)
    wait_until(lambda: bool(listed()))
    own = f"{jupyter}chimbuko/of/{listed()[0]['address']}"
    answer = requests.get(f"http://{own}/api/v1/run", headers=mine, timeout=PATIENCE_S)
    assert answer.json()["status"]["ranks"] == RANKS
    # Events come through, from a page of the portal; a page from elsewhere, or nobody, gets nothing.
    events = f"{own}/socket.io/?EIO=4&transport=websocket"
    assert b"101 Switching" in opened(events, mine | {"Origin": "https://hub.example"}, until=b'0{"sid"')
    assert b"403 Forbidden" in opened(events, mine | {"Origin": "https://elsewhere.example"}, until=b"\r\n")
    assert (
        requests.get(
            f"http://{jupyter}chimbuko/", headers=PORTAL, timeout=PATIENCE_S, allow_redirects=False
        ).status_code
        != 200
    )


@pytest.mark.thorough
def test_a_dashboard_is_reached_by_its_port(jupyter: str, finished: MadeRun) -> None:
    pytest.importorskip("jupyter_server_proxy")
    mine = signed_in(jupyter)
    [port] = free_ports(1)
    words = ["--public-url", f"https://hub.example/user/me/proxy/{port}/"]
    with dashboard(finished, port=port, words=words) as process:
        place = f"http://{jupyter}proxy/{port}/"
        login = requests.get(
            f"{place}?{urlsplit(process.url).query}", headers=mine, timeout=PATIENCE_S, allow_redirects=False
        )
        assert login.status_code == 303
        cookie = login.headers["Set-Cookie"].partition(";")[0]
        page = requests.get(
            place, headers=mine | {"Cookie": f"{mine['Cookie']}; {cookie}"}, timeout=PATIENCE_S
        )
        assert page.status_code == 200 and "<script" in page.text
        assert requests.get(f"{place}api/v1/run", headers=mine, timeout=PATIENCE_S).status_code == 401
