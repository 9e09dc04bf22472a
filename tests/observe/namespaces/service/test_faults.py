"""What is published outlives whoever serves it: instances, broker and service are killed."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import redis

from chimbuko.core.errors import ServiceError
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.jobaddress import find_address
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.observe.namespaces.exchange.wire import VERSION
from chimbuko.runtime.protocol import broker as protocol_broker
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.messages import PAYLOAD
from tests.observe.namespaces.served import Served, served
from tests.patience import PATIENCE_S
from tests.thorough import first


def merged(service: Served, namespace: str = "application") -> list[int]:
    """How many publications each instance's state has, without what a reader adds to it."""
    return [len(fields) for fields in states(service, namespace)]


def states(service: Served, namespace: str) -> list[dict[bytes, bytes]]:
    with service.folder.connect() as broker:
        shards = find_address(service.path).shards(find_address(service.path).about(broker), namespace)
        return [broker.hgetall(shard.state) for shard in shards]  # type: ignore[misc]


def holders(service: Served) -> list[bytes | None]:
    with service.folder.connect() as broker:
        place = find_address(service.path)
        return [broker.get(shard.lease) for shard in place.shards(place.about(broker), "application")]  # type: ignore[misc]


def is_merged(service: Served, key: str) -> bool:
    return any(key.encode() in fields for fields in states(service, "application"))


def kill_instance(service: Served, name: str) -> None:
    (member,) = [one.service for one in service.serving._instances._members if one.service.name == name]
    os.kill(member.process.pid, signal.SIGKILL)
    member.process.wait()


def test_ranks_go_to_instances_by_turns_and_are_read_together(tmp_path: Path) -> None:
    with served(tmp_path / "service", instances=3) as service:
        for rank in range(4):
            with Client(service.path, rank=rank) as client:
                client.create("application").publish_tree({f"Rank {rank}": {"step": rank}})
        with Reader(service.path) as reader:
            assert [counts.publications for counts in reader.counts("application")] == [2, 1, 1]
            assert reader.read("application") == {f"Rank {rank}": {"step": rank} for rank in range(4)}
            # Several wrote the same: the last one is right.
            for rank in (1, 0):
                with Client(service.path, rank=rank) as client:
                    client.create("application").publish_tree({"last": rank})
            assert reader.read("application")["last"] == 0
            assert len(reader.history("application", "last")) == 2


def test_another_instance_stands_in_for_one_that_was_killed_until_it_is_back(tmp_path: Path) -> None:
    with served(tmp_path / "service", instances=2) as service, Client(service.path, rank=1) as client:
        namespace = client.create("application")
        namespace.publish_tree({"before": 1})
        service.until(lambda: is_merged(service, "before") and None not in holders(service))
        other, killed = holders(service)
        kill_instance(service, "application-1")
        # Nobody looks after the service: only the other instance can merge this.
        namespace.publish_tree({"during": 1})
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_merged(service, "during") or holders(service) != [other, other]:
            assert time.monotonic() < deadline_s, service.logs()
            time.sleep(0.05)
        # Started again it has its place back.
        service.until(lambda: bool(set(holders(service)) - {other, killed, None}))
        namespace.publish_tree({"after": 1})
        service.until(lambda: is_merged(service, "after"))
        with Reader(service.path) as reader:
            assert reader.read("application") == {"before": 1, "during": 1, "after": 1}
            assert reader.counts("application")[1].publications == 3
        service.problems.clear()


@pytest.mark.thorough
def test_all_is_readable_while_no_instance_lives(tmp_path: Path) -> None:
    with served(tmp_path / "service") as service, Client(service.path) as client:
        kill_instance(service, "application-0")
        client.create("application").publish_tree({"a": 1})
        with Reader(service.path) as reader:
            assert reader.read("application") == {"a": 1}
        assert not is_merged(service, "a")
        service.until(lambda: is_merged(service, "a"))


def test_a_killed_broker_loses_nothing_that_had_arrived(tmp_path: Path) -> None:
    with (
        served(tmp_path / "service") as service,
        Client(service.path) as client,
        Reader(service.path) as reader,
    ):
        namespace = client.create("application")
        heard = reader.subscribe("application")
        for step in range(20):
            namespace.update("steps", step, "append")
            namespace.commit()
        broker = service.serving._broker
        assert broker is not None
        os.kill(broker.pid, signal.SIGKILL)
        for step in range(20, 40):
            namespace.update("steps", step, "append")
            namespace.commit_async()
        service.until(lambda: broker.is_running and client.waiting == 0)
        assert reader.read("application")["steps"].tolist() == list(range(40))
        assert sum(next(heard).commits for _ in range(40)) == 40
        assert client.delivered == 40


def test_a_service_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "service"
    with served(path) as service:
        job = service.admit("heat")
        texts = [(job / role).read_text() for role in ("writer", "reader")]
        with Client(job) as client:
            client.create("application").publish_tree({"a": 1})
    with pytest.raises(ServiceError, match="cannot be used"):
        Client(job)
    with served(path, instances=2) as service:
        assert [(job / role).read_text() for role in ("writer", "reader")] == texts
        with Client(job) as client, Reader(job) as reader:
            assert reader.read("application") == {"a": 1}
            client.create("application").publish_tree({"b": 2})
            assert reader.read("application") == {"a": 1, "b": 2}


NETWORK = "127.0.0.2"
"""Address that is not the usual one of the loopback, as that of a network."""


def test_on_a_network_only_who_has_the_certificate_is_served(tmp_path: Path) -> None:
    with served(tmp_path / "service", bind=(NETWORK, 0)) as service:
        place = find_address(service.path)
        url, _, of_service = place.text.partition("#")
        pinned, _, certificate = url.partition("?ssl_ca_data=")
        assert pinned.startswith("rediss://") and f"@{NETWORK}:" in pinned and certificate
        with Client(service.path) as client, Reader(place.text) as reader:
            namespace = client.create("application")
            namespace.publish_tree({"a": 1})
            assert reader.read("application") == {"a": 1}
            with pytest.raises(ServiceError, match="CERTIFICATE_VERIFY_FAILED"):
                Client(f"{pinned}#{of_service}")
            with pytest.raises(ServiceError, match="cannot be used"):
                Client(f"{pinned.replace('rediss', 'redis', 1)}#{of_service}")
            for process in (service.serving._door, service.serving._broker):
                assert process is not None
                os.kill(process.pid, signal.SIGKILL)
                while process.is_running:
                    time.sleep(0.01)
                namespace.update("b", process.pid)
                namespace.commit_async()
                service.until(lambda: process.is_running and client.waiting == 0)  # noqa: B023
            assert client.delivered == 3


def test_secrets_are_in_files_of_their_owner(tmp_path: Path) -> None:
    with served(tmp_path / "service") as service:
        secret = [service.folder.broker_path, *(service.path / "jobs" / "default").iterdir()]
        assert len(secret) == 3
        assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}
        addresses = service.folder.addresses_path.read_text()
        assert addresses.startswith("2\n0 127.0.0.1:") and "@" not in addresses
        assert (service.path / "nodes").read_text() == "0\n1\n"


def test_what_is_not_understood_is_counted_and_harms_nobody(tmp_path: Path) -> None:
    with served(tmp_path / "service") as service, Client(service.path) as client:
        place = find_address(service.path)
        with place.connect() as broker:
            (shard,) = place.shards(place.about(broker), "application")
            for data in (b"", b"\x09new", bytes((VERSION,)) + b"\xc1", b"x" * 1000):
                broker.xadd(shard.log, {PAYLOAD: data})
            broker.xadd(shard.log, {b"other": b"field"})
            with pytest.raises(redis.ResponseError):
                broker.hset(shard.state, "a", "b")
        client.create("application").publish_tree({"a": 1})
        service.until(lambda: is_merged(service, "a"))
        with Reader(service.path) as reader:
            assert reader.read("application") == {"a": 1}
            (counts,) = reader.counts("application")
        assert (counts.publications, counts.refused) == (1, 5)
        assert "version" in service.logs()


def test_old_values_and_publications_make_room_for_new_ones(tmp_path: Path) -> None:
    keep_bytes = 20_000
    with served(tmp_path / "service", keep_bytes=keep_bytes) as service, Client(service.path) as client:
        namespace = client.create("application")
        for number in range(300):
            namespace.update(f"leaf {number}", float(number))
            namespace.commit_async()
        namespace.publish()
        namespace.update("end", True)
        namespace.publish()
        service.until(lambda: is_merged(service, "end"))
        (fields,) = states(service, "application")
        kept = sorted(int(name.split()[1]) for name in fields if name.startswith(b"leaf"))
        assert kept == list(range(300 - len(kept), 300)) and 50 < len(kept) < 250
        with Reader(service.path) as reader:
            (counts,) = reader.counts("application")
        assert counts.forgotten == 300 - len(kept)
        assert client.delivered == 301


def test_why_a_broker_takes_nothing_is_said_in_its_words(tmp_path: Path) -> None:
    with served(tmp_path / "service") as service, service.folder.connect() as broker:
        client = Client(service.path)
        broker.config_set("min-replicas-to-write", 1)
        client.create("application").publish_tree_async({"a": 1})
        with pytest.raises(ServiceError, match=r"^1 publication did not arrive \(NOREPLICAS"):
            client.close(0.5)
        broker.config_set("min-replicas-to-write", 0)


def users_of(broker: redis.Redis) -> set[bytes]:
    users = broker.execute_command("ACL", "USERS")  # type: ignore[no-untyped-call]
    return {user for user in users if user.startswith(b"chimbuko-ns.")}


def lose_users(broker: redis.Redis) -> None:
    """As a server does that is started anew: it has kept what was published, and no users."""
    broker.execute_command("ACL", "DELUSER", *users_of(broker))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("server", first(1, ["valkey", "redis"]))
def test_users_that_the_broker_has_lost_are_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """Also of a Redis, which may be one without some commands that a Valkey has."""
    if server == "redis":
        found = shutil.which("redis-server")
        if found is None:
            pytest.skip("no Redis: apt-get install redis-server")
        monkeypatch.setattr(protocol_broker, "valkey_server", lambda: Path(found))
    with (
        PrivateBroker(tmp_path / "broker.log") as broker,
        served(tmp_path / "service", broker=broker.keeper_url) as service,
        Client(service.path) as client,
    ):
        namespace = client.create("application")
        namespace.publish_tree({"before": 1})
        with connect(broker.keeper_url) as owner:
            lose_users(owner)
        arrived = namespace.publish_tree_async({"after": 2})
        service.until(arrived.done)
        arrived.result()
        with Reader(service.path) as reader:
            assert reader.read("application") == {"before": 1, "after": 2}


@pytest.mark.thorough
def test_in_a_cluster_it_is_the_same(tmp_path: Path, cluster: str) -> None:
    with served(tmp_path / "service", instances=2, broker=cluster) as service:
        for rank in range(2):
            with Client(service.path, rank=rank) as client:
                namespace = client.create("application")
                for step in range(50):
                    namespace.update(f"Rank {rank}/steps", step, "append")
                    namespace.commit_async()
        with Reader(service.path) as reader:
            found = reader.read("application")
            assert [found[f"Rank {rank}"]["steps"].tolist() for rank in range(2)] == [list(range(50))] * 2
        client = Client(service.path / "jobs" / "default" / "reader")
        with pytest.raises(ServiceError, match="not permitted"):
            client.create("application").publish_tree({"a": 1})
        with pytest.raises(ServiceError, match="did not arrive"):
            client.close()
        with redis.Redis.from_url(cluster) as node:
            users = users_of(node)
            lose_users(node)
            service.until(lambda: users_of(node) == users)
