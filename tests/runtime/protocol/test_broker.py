"""The broker: our private one, and how any is used."""

from __future__ import annotations

import os
import select
import signal
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
from chimbuko.monitor.procfs.titles import is_title
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
    one.flushdb()
    yield one
    one.close()


def test_it_listens_on_loopback_and_asks_for_the_password(broker: PrivateBroker, client: redis.Redis) -> None:
    address = urlsplit(broker.url)
    assert client.config_get("bind") == {"bind": "127.0.0.1"}
    with pytest.raises(ServiceError, match=rf"broker at 127.0.0.1:{address.port} cannot be used \(.*uthent"):
        connect(f"redis://127.0.0.1:{address.port}/0")


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
        assert urlsplit(broker.url).hostname == "127.0.0.2"
        with pytest.raises(ServiceError):
            connect(broker.url.replace("127.0.0.2", "127.0.0.1"))
        again = PrivateBroker(tmp_path / "again.log", "127.0.0.3", urlsplit(broker.url).port or 0)
        assert urlsplit(again.url).port == urlsplit(broker.url).port


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
    assert client.delete(*broker.keys.all) == 4
    client.close()


def test_a_connection_finds_a_broker_that_came_back_elsewhere(tmp_path: Path) -> None:
    """With another password, that has to be quoted in a URL."""
    place = tmp_path / "broker"
    with PrivateBroker(tmp_path / "first.log") as first:
        place.write_text(first.url)
        client = connect(first.url, found_in=place)
        client.set("key", "first")
    with PrivateBroker(tmp_path / "second.log") as second, connect(second.url) as beside:
        beside.config_set("requirepass", "p@ss/wörd")
        place.write_text(f"redis://:{quote('p@ss/wörd', safe='')}@127.0.0.1:{urlsplit(second.url).port}/0")
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
