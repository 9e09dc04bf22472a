"""The door of a broker: other nodes come in over TLS, and only to who has the certificate's key."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import redis

from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.runtime.protocol import tlsdoor
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.brokerdoor import BrokerDoor, new_certificate
from tests.patience import PATIENCE_S

ADDRESS = "127.0.0.2"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PrivateBroker]:
    with PrivateBroker(tmp_path / "broker.log") as one:
        yield one


@pytest.fixture
def door(broker: PrivateBroker, tmp_path: Path) -> Iterator[BrokerDoor]:
    one = BrokerDoor(tmp_path, ADDRESS, 0)
    one.open(broker.url)
    yield one
    one.close()


def test_what_comes_over_tls_is_the_brokers(broker: PrivateBroker, door: BrokerDoor) -> None:
    value = os.urandom(1 << 20)
    with connect(door.url) as outside, connect(broker.url) as inside:
        outside.set("key", value)
        assert inside.get("key") == value == outside.get("key")
        assert outside.acl_whoami() == inside.acl_whoami() == "chimbuko"


def test_its_certificate_holds_for_the_strictest_clients(door: BrokerDoor) -> None:
    place = urlsplit(door.url)
    context = ssl.create_default_context(cadata=parse_qs(place.query)["ssl_ca_data"][0])
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with (
        socket.create_connection((ADDRESS, place.port)) as connection,
        context.wrap_socket(connection, server_hostname=ADDRESS) as encrypted,
    ):
        assert encrypted.version() == "TLSv1.3"


def test_who_has_another_key_gets_no_password(broker: PrivateBroker, door: BrokerDoor) -> None:
    other = quote(new_certificate(ADDRESS).text, safe="")
    url = door.url.partition("?")[0]
    with pytest.raises(ServiceError, match="certificate verify failed"):
        connect(f"{url}?ssl_ca_data={other}")
    with pytest.raises(ServiceError, match="certificate verify failed"):
        connect(url)
    # Nor does it speak without TLS.
    with pytest.raises(ServiceError, match="cannot be used"):
        connect(url.replace("rediss", "redis"))


def test_it_opens_again_at_its_port_and_elsewhere_with_another_certificate(
    broker: PrivateBroker, door: BrokerDoor, tmp_path: Path
) -> None:
    place, url = tmp_path / "broker", door.url
    place.write_text(url)
    with connect(url, found_in=place) as client:
        os.kill(door.pid, signal.SIGKILL)
        deadline_s = time.monotonic() + PATIENCE_S
        while door.is_running and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert not door.is_running
        door.open(broker.url)
        assert door.url == url and client.ping()
        door.close()
        elsewhere = BrokerDoor(tmp_path, "127.0.0.3", 0)
        elsewhere.open(broker.url)
        place.write_text(elsewhere.url)
        assert client.ping()
        elsewhere.close()


@pytest.fixture
def door_of_three(broker: PrivateBroker) -> Iterator[tuple[subprocess.Popen[str], str]]:
    certificate = new_certificate(ADDRESS)
    words = ["--address", ADDRESS, "--port", "0", "--target", urlsplit(broker.url).path, "--processes", "3"]
    with subprocess.Popen(
        [sys.executable, "-m", tlsdoor.__name__, *words],
        env=os.environ | {tlsdoor.CERTIFICATE_VARIABLE: certificate.text + certificate.key},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        ),
    ) as process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        inside = urlsplit(broker.url)
        pinned = quote(certificate.text, safe="")
        yield process, f"rediss://{inside.username}:{inside.password}@{ADDRESS}:{port}/0?ssl_ca_data={pinned}"
        process.kill()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_several_processes_take_more_clients_than_one_has_files_at_first(
    door_of_three: tuple[subprocess.Popen[str], str],
) -> None:
    process, url = door_of_three
    assert len(children_of(process.pid)) == 2
    with ExitStack() as stack:
        # Two files each, and a few more: a limit of 256 would stop this at some 120.
        clients = [stack.enter_context(connect(url)) for _ in range(150)]
        assert all(client.ping() for client in clients)


def test_a_door_one_of_whose_processes_ends_is_opened_anew(
    door_of_three: tuple[subprocess.Popen[str], str],
) -> None:
    process, _ = door_of_three
    others = children_of(process.pid)
    os.kill(others[0], signal.SIGKILL)
    assert process.wait(PATIENCE_S) == 1
    deadline_s = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{others[1]}").exists() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not Path(f"/proc/{others[1]}").exists()


def test_a_broker_that_comes_back_is_found_behind_it(broker: PrivateBroker, door: BrokerDoor) -> None:
    with connect(door.url) as client:
        broker.start()
        # The door may not have heard yet that the connection has ended.
        with suppress(redis.ConnectionError):
            client.ping()
        assert client.ping()


def test_a_port_that_is_taken_is_said(broker: PrivateBroker, tmp_path: Path) -> None:
    with socket.create_server((ADDRESS, 0)) as taken:
        door = BrokerDoor(tmp_path, ADDRESS, taken.getsockname()[1])
        with pytest.raises(ServiceError, match="Address already in use"):
            door.open(broker.url)


def test_neither_password_nor_key_is_on_a_command_line(broker: PrivateBroker, door: BrokerDoor) -> None:
    words = Path(f"/proc/{door.pid}/cmdline").read_bytes().decode()
    assert "PRIVATE" not in words and str(urlsplit(broker.url).password) not in words


def test_an_address_of_another_node_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no address of this node"):
        BrokerDoor(tmp_path, "192.0.2.1", 0)
