"""The broker: our private one, and how any is used."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import redis
from redis.cluster import RedisCluster

from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.monitor.sampling.ownrun import is_title
from chimbuko.runtime.protocol.broker import BROKER_NAME, PrivateBroker, connect, valkey_server
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE, address_of
from chimbuko.runtime.protocol.messages import PAYLOAD
from chimbuko.runtime.protocol.runbroker import RunBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateBroker]:
    with PrivateBroker(tmp_path_factory.mktemp("broker") / "broker.log") as one:
        yield one


@pytest.fixture
def client(broker: PrivateBroker) -> Iterator[redis.Redis]:
    one = connect(broker.url)
    with connect(broker.keeper_url) as keeper:
        keeper.flushdb()
    yield one
    one.close()


def test_it_listens_at_a_socket_of_its_user_alone_and_asks_for_the_password(broker: PrivateBroker) -> None:
    path = Path(urlsplit(broker.url).path)
    assert broker.url_elsewhere == broker.url
    assert path.is_socket() and path.parent.stat().st_mode & 0o777 == 0o700
    with connect(broker.keeper_url) as keeper:
        assert keeper.config_get("port") == {"port": "0"}
    with pytest.raises(ServiceError, match=rf"broker at {path} cannot be used \(.*uthent"):
        connect(f"unix://{path}")


def test_who_takes_part_in_a_run_has_no_rights_of_its_keeper(client: redis.Redis) -> None:
    for words in ("REPLICAOF 127.0.0.1 1", "CONFIG GET bind", "SHUTDOWN", "FLUSHALL", "ACL LIST", "MONITOR"):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*words.split())


def test_no_socket_is_where_no_path_is_short_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("chimbuko.runtime.process.nameholding.PLACES", (long,))
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with PrivateBroker(tmp_path / "broker.log") as broker, connect(broker.url) as client:
        assert urlsplit(broker.url).hostname == "127.0.0.1"
        assert client.ping()
    assert list(long.glob("chimbuko-broker-*")) == []


def test_its_binary_is_found_without_the_package_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys; from chimbuko.runtime.protocol.broker import valkey_server; print(valkey_server()); "
    )
    program += "print([name for name in sys.modules if name.startswith('valkey')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found, loaded = done.stdout.splitlines()
    assert os.access(found, os.X_OK) and loaded == "[]"
    # Where the package has it elsewhere, the package says so.
    monkeypatch.setattr("chimbuko.runtime.protocol.broker.find_spec", lambda name: None)
    assert str(valkey_server()) == found


def test_a_service_knows_that_the_broker_was_started_anew_while_it_did_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PrivateBroker(tmp_path / "broker.log") as broker:
        monkeypatch.setenv(BROKER_VARIABLE, broker.url)
        client = RunBroker.from_environment("run").client
        for _ in range(2):
            client.set("key", "value")
            broker.stop()
            broker.start()
            with pytest.raises(redis.ConnectionError, match="interrupted"):
                client.get("key")
            assert client.get("key") is None
        client.close()


def test_the_password_is_in_no_process_list_and_no_file(broker: PrivateBroker) -> None:
    password = urlsplit(broker.url).password
    assert password is not None and len(password) >= 32
    assert password.encode() not in Path(f"/proc/{broker.pid}/cmdline").read_bytes()
    assert password.encode() not in Path(f"/proc/{broker.pid}/environ").read_bytes()


def test_it_counts_as_the_analysis_whichever_run_it_serves(broker: PrivateBroker) -> None:
    name = Path(f"/proc/{broker.pid}/comm").read_text().strip()
    assert name == BROKER_NAME and is_title(name)


def test_it_listens_where_it_is_told(tmp_path: Path) -> None:
    with PrivateBroker(tmp_path / "broker.log", "127.0.0.2", 0) as broker:
        assert urlsplit(broker.url_elsewhere).hostname == "127.0.0.2"
        with pytest.raises(ServiceError):
            connect(broker.url_elsewhere.replace("127.0.0.2", "127.0.0.1"))
        port = urlsplit(broker.url_elsewhere).port or 0
        with PrivateBroker(tmp_path / "again.log", "127.0.0.3", port) as again:
            assert urlsplit(again.url_elsewhere).port == port


def test_a_port_that_is_taken_before_the_broker_has_it_is_given_up(tmp_path: Path) -> None:
    broker = PrivateBroker(tmp_path / "broker.log", "127.0.0.1")
    port = urlsplit(broker.url_elsewhere).port or 0
    with socket.create_server(("127.0.0.1", port)), broker, connect(broker.url_elsewhere) as client:
        assert client.ping() and urlsplit(broker.url_elsewhere).port != port
        fixed = PrivateBroker(tmp_path / "fixed.log", "127.0.0.1", port)
        with pytest.raises(ServiceError, match="did not start"):
            fixed.start()
        fixed.stop()


LISTEN = """
import os, socket, sys
os.setuid(65534)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
taken, _ = server.accept()
print(taken.recv(1000), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_another_user_who_takes_its_port_gets_no_password(tmp_path: Path, is_elsewhere: bool) -> None:
    """Nor from a client that knows where the broker's address is kept."""
    place = tmp_path / "broker"
    with PrivateBroker(tmp_path / "broker.log", "127.0.0.1") as broker:
        place.write_text(url := broker.url_elsewhere)
        client = connect(url, found_in=place if is_elsewhere else None)
        assert client.ping()
        os.kill(broker.pid, signal.SIGKILL)
        while broker.is_running:
            pass
        words = [sys.executable, "-c", LISTEN, str(urlsplit(url).port)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as stranger:
            assert stranger.stdout is not None and stranger.stdout.readline() == "listens\n"
            with pytest.raises(redis.ConnectionError, match="another user listens"):
                client.ping()
            assert stranger.stdout.readline() == "b''\n"
        # What was known before is of no use with its next start.
        broker.start()
        assert broker.url_elsewhere != url
        with pytest.raises(ServiceError, match=r"uthenti|password"):
            connect(url)
        place.write_text(broker.url_elsewhere)
        if is_elsewhere:
            assert client.ping()
        client.close()


def test_a_socket_that_was_removed_comes_back_with_the_next_start(tmp_path: Path) -> None:
    with PrivateBroker(tmp_path / "broker.log") as broker:
        shutil.rmtree(Path(urlsplit(broker.url).path).parent)
        assert not broker.is_running
        broker.start()
        with connect(broker.url) as client:
            assert client.ping()
    assert not Path(urlsplit(broker.url).path).parent.exists()


def test_an_address_that_is_not_of_this_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no address of this node"):
        PrivateBroker(tmp_path / "broker.log", "192.0.2.1")


@pytest.mark.parametrize(("name", "address"), [("lo", "127.0.0.1"), ("127.0.0.2", "127.0.0.2")])
def test_addresses_of_interfaces_and_hosts(name: str, address: str) -> None:
    assert address_of(name) == address


def test_a_name_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="neither an address, nor a network interface, nor a host"):
        address_of("no-such-host.invalid")


def test_it_writes_nothing_but_its_log(tmp_path: Path) -> None:
    """In a folder whose name its settings must quote."""
    folder = tmp_path / 'a "run" of\\mine'
    folder.mkdir()
    with PrivateBroker(folder / "broker.log") as broker:
        client = connect(broker.url)
        client.set("key", "x" * 1000)
        client.close()
    assert [path.name for path in folder.iterdir()] == ["broker.log"]
    assert broker.pid == 0 and not broker.is_running


def test_started_again_it_has_the_same_address_and_nothing_in_it(tmp_path: Path) -> None:
    with PrivateBroker(tmp_path / "broker.log") as broker:
        url, client = broker.url, connect(broker.url)
        client.set("key", "value")
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(redis.RedisError):
            while True:
                client.ping()
        broker.stop()
        broker.start()
        assert broker.url == url and client.get("key") is None
        client.close()


START_AND_WAIT = """
import sys
from pathlib import Path
from chimbuko.runtime.protocol.broker import PrivateBroker
with PrivateBroker(Path(sys.argv[1])) as broker:
    print(broker.pid, flush=True)
    sys.stdin.read()
"""


def test_it_does_not_outlive_a_killed_launcher(tmp_path: Path) -> None:
    launcher = subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, str(tmp_path / "broker.log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert launcher.stdin is not None and launcher.stdout is not None
    watched = os.pidfd_open(int(launcher.stdout.readline()))
    launcher.kill()
    launcher.communicate()
    # A descriptor of a process becomes readable when it has ended.
    ended = select.poll()
    ended.register(watched, select.POLLIN)
    assert ended.poll(10_000)
    os.close(watched)


def test_a_broker_that_cannot_start_names_its_log(tmp_path: Path) -> None:
    log = tmp_path / "missing" / "broker.log"
    with pytest.raises(ServiceError, match=r"did not start; its log is .*missing/broker.log"):
        PrivateBroker(log).start()


@pytest.mark.parametrize("url", ["http://host", "nonsense", "redis://host:port"])
def test_a_url_that_is_none_of_a_broker_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="redis://HOST:6379"):
        connect(url)


def test_errors_do_not_show_the_password() -> None:
    with pytest.raises(ServiceError, match=r"broker at 127.0.0.1:9 cannot") as error:
        connect("redis://:secret@127.0.0.1:9/0")
    assert "secret" not in str(error.value)


def test_the_environment_names_the_broker(broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BROKER_VARIABLE, raising=False)
    with pytest.raises(ServiceError, match="CHIMBUKO_BROKER is not set"):
        RunBroker.from_environment("run")
    monkeypatch.setenv(BROKER_VARIABLE, broker.url)
    client = RunBroker.from_environment("run").client
    assert client.ping()
    client.close()


def test_a_stream_is_read_in_order_from_where_one_was(client: redis.Redis) -> None:
    entries = [client.xadd("stream", {PAYLOAD: bytes([number])}) for number in range(5)]
    broker = RunBroker(client, "run")
    assert [payload for _, payload in broker.read("stream", b"0", 3)] == [b"\0", b"\1", b"\2"]
    assert [entry for entry, _ in broker.read("stream", entries[2], 10)] == entries[3:]
    assert broker.read("stream", entries[4], 10) == []
    assert broker.read("stream", entries[4], 10, block_ms=1) == []


def test_programs_are_numbered_once_whoever_asks(broker: PrivateBroker) -> None:
    """Many ask at the same time, each for all programs in an order of its own."""
    names = [f"program{number}" for number in range(8)]
    answers: list[dict[str, int]] = []

    def ask(shift: int) -> None:
        one = RunBroker.connect(broker.url, "run")
        order = names[shift:] + names[:shift]
        answers.append({name: one.program_number(name) for name in order})
        one.client.close()

    threads = [threading.Thread(target=ask, args=(shift,)) for shift in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all(answer == answers[0] for answer in answers)
    assert sorted(answers[0].values()) == list(range(8))


def test_a_cluster_is_used_like_a_single_server(cluster: str) -> None:
    """All that our processes do with a broker, and their keys on the other node."""
    broker = RunBroker.connect(cluster, "run")
    client = broker.client
    assert isinstance(client, RedisCluster)
    assert [broker.program_number(name) for name in ("heat", "viz", "heat")] == [0, 1, 0]
    with client.pipeline(transaction=True) as pipeline:
        pipeline.delete(broker.keys.part(0).model)
        pipeline.hset(broker.keys.part(0).model, mapping={"1": b"row"})
        pipeline.rpush(broker.keys.part(0).functions, b"name")
        pipeline.xadd(broker.keys.part(0).model_updates, {PAYLOAD: b"update"}, maxlen=10, approximate=True)
        pipeline.execute()
    with client.pipeline(transaction=False) as pipeline:
        pipeline.hget(broker.keys.part(0).model, "1")
        pipeline.xread({broker.keys.part(0).model_updates: b"0"}, count=5, block=20)
        row, updates = pipeline.execute()
    assert row == b"row" and len(updates) == 1
    assert broker.read(broker.keys.part(0).model_updates, b"0", 5)[0][1] == b"update"
    assert client.delete(*broker.keys.all()) == 4
    client.close()


def test_a_connection_finds_a_broker_that_came_back_elsewhere(tmp_path: Path) -> None:
    """With another user and password, that have to be quoted in a URL."""
    place = tmp_path / "broker"
    with PrivateBroker(tmp_path / "first.log", "127.0.0.1") as first:
        place.write_text(first.url_elsewhere)
        client = connect(first.url_elsewhere, found_in=place)
        client.set("key", "first")
    with (
        PrivateBroker(tmp_path / "second.log", "127.0.0.1") as second,
        connect(second.keeper_url) as beside,
    ):
        beside.acl_setuser("sömebody", enabled=True, passwords="+p@ss/wörd", commands=["+@all"], keys="*")
        port = urlsplit(second.url_elsewhere).port
        place.write_text(f"redis://{quote('sömebody')}:{quote('p@ss/wörd', safe='')}@127.0.0.1:{port}/0")
        client.set("key", "second")
        assert beside.get("key") == b"second"
        client.close()


def test_it_ends_when_we_say_so_and_not_with_the_job(tmp_path: Path) -> None:
    with PrivateBroker(tmp_path / "broker.log") as one, connect(one.url) as client:
        client.set("found", 1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(one.pid, number)
        assert client.get("found") == b"1"
        pid = one.pid
    assert not Path(f"/proc/{pid}").exists()
