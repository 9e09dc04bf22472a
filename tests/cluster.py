"""A Valkey cluster on this machine."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from chimbuko.protocol.broker import valkey_server
from chimbuko.protocol.keys import RunKeys


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """A cluster of two nodes: the URL of the one that does not have our keys."""
    *ports, first_bus, second_bus = _free_ports(4)
    nodes = []
    for port, bus in zip(ports, (first_bus, second_bus), strict=True):
        settings = f"port {port}\nbind 127.0.0.1\ncluster-enabled yes\ncluster-port {bus}\nsave ''\n"
        (folder / str(port)).mkdir()
        node = subprocess.Popen(
            [str(valkey_server()), "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=folder / str(port),
        )
        assert node.stdin is not None
        node.stdin.write(settings.encode())
        node.stdin.close()
        nodes.append(node)
    ours, others = (redis.Redis(port=port) for port in ports)
    for client in (ours, others):
        while not _answers(client):
            time.sleep(0.01)
    is_low = ours.cluster("KEYSLOT", RunKeys("run").programs) < 8192
    for client, (first, last) in zip(
        (ours, others) if is_low else (others, ours), ((0, 8191), (8192, 16383)), strict=True
    ):
        client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
    ours.execute_command("CLUSTER MEET", "127.0.0.1", ports[1], second_bus)
    for client in (ours, others):
        while client.cluster("INFO")["cluster_state"] != "ok":
            time.sleep(0.05)
        client.close()
    try:
        yield f"redis://127.0.0.1:{ports[1]}"
    finally:
        for node in nodes:
            node.terminate()
            node.wait()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
