"""A Valkey cluster on this machine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from chimbuko.runtime.protocol.broker import valkey_server
from chimbuko.runtime.protocol.runbroker import RunKeys
from tests.sockets import free_ports

SLOTS = 16_384


class ClusterNode:
    """One of its servers."""

    def __init__(self, folder: Path, port: int, bus_port: int) -> None:
        self.port, self.bus_port = port, bus_port
        self._folder = folder / str(port)
        self._folder.mkdir()
        self.client = redis.Redis(port=port)
        self.start()

    def start(self) -> None:
        """Start it, again as the same member of the cluster, and wait until it answers; it is empty."""
        settings = (
            f"port {self.port}\nbind 127.0.0.1\ncluster-enabled yes\ncluster-port {self.bus_port}\nsave ''\n"
        )
        self._process = subprocess.Popen(
            [str(valkey_server()), "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(settings.encode())
        self._process.stdin.close()
        while not _answers(self.client):
            time.sleep(0.01)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it for good."""
        self._process.terminate()
        self._process.wait()
        self.client.close()


class Cluster:
    """A cluster of servers without replicas.

    Parameters
    ----------
    folder
        For what each of them keeps of the others.
    """

    def __init__(self, folder: Path, nodes: int) -> None:
        ports = free_ports(2 * nodes)
        self.nodes = [
            ClusterNode(folder, port, bus_port)
            for port, bus_port in zip(ports[:nodes], ports[nodes:], strict=True)
        ]
        bounds = [SLOTS * number // nodes for number in range(nodes + 1)]
        for node, first, end in zip(self.nodes, bounds, bounds[1:], strict=False):
            node.client.execute_command("CLUSTER ADDSLOTSRANGE", first, end - 1)
        for node in self.nodes[1:]:
            self.nodes[0].client.execute_command("CLUSTER MEET", "127.0.0.1", node.port, node.bus_port)
        self.wait()

    @property
    def urls(self) -> list[str]:
        """Of its nodes."""
        return [f"redis://127.0.0.1:{node.port}" for node in self.nodes]

    def place_of(self, key: str) -> int:
        """Number of the node that has a key."""
        return int(self.nodes[0].client.cluster("KEYSLOT", key)) * len(self.nodes) // SLOTS

    def wait(self) -> None:
        """Until all of them know each other, and each slot has its node."""
        for node in self.nodes:
            while node.client.cluster("INFO")["cluster_state"] != "ok":
                time.sleep(0.05)

    def stop(self) -> None:
        """End all of them."""
        for node in self.nodes:
            node.stop()


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """A cluster of two nodes: the URL of the one that does not have our keys."""
    cluster = Cluster(folder, 2)
    try:
        yield cluster.urls[1 - cluster.place_of(RunKeys("run").programs)]
    finally:
        cluster.stop()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
