"""Many clients of one broker: each has a connection, and publishes now and then."""

from __future__ import annotations

import resource
import select
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.measuring import cpu_of, descendants
from benchmarks.publishing.service import service
from chimbuko.observe.namespaces.exchange.jobaddress import WRITER, find_address
from chimbuko.observe.namespaces.exchange.leaves import as_leaf
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.observe.namespaces.exchange.tree import Change
from chimbuko.observe.namespaces.exchange.wire import Publication, encode
from chimbuko.runtime.protocol.messages import PAYLOAD

VALUES = 12
"""In a publication."""


@dataclass(frozen=True)
class Load:
    """What so many clients ask of broker and instance."""

    clients: int
    period_s: float
    publication_bytes: int
    sent: int
    taken: int
    """By the instance, in the end."""
    rate: float
    """Publications a second that arrived."""
    broker_share: float
    """Of a core, while they came."""
    instance_share: float

    @property
    def as_object(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def carried(folder: Path, count: int, period_s: float, seconds: float) -> Load:
    """Let clients publish for so many seconds, each in its turn."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with service(folder) as serving:
        place = find_address(folder, WRITER)
        with place.connect() as client:
            (shard,) = place.shards(place.about(client), "application")
        url = urlsplit(place.url)
        greeting = _command(b"AUTH", (url.username or "").encode(), (url.password or "").encode())
        crowd = _Crowd(url.hostname or "", url.port or 0, greeting, shard.log.encode(), count)
        try:
            started = descendants(serving)
            broker = [one.pid for one in started if "valkey" in one.command or "redis" in one.command]
            instance = [one.pid for one in started if "application" in one.command]
            before_s = cpu_of(broker), cpu_of(instance)
            begin_s = time.monotonic()
            crowd.publish(count / period_s, seconds)
            took_s = time.monotonic() - begin_s
            broker_share = (cpu_of(broker) - before_s[0]) / took_s
            instance_share = (cpu_of(instance) - before_s[1]) / took_s
        finally:
            crowd.close()
        with Reader(folder) as reader:
            taken = reader.counts("application")[0].publications
        return Load(
            count,
            period_s,
            crowd.largest,
            crowd.sent,
            taken,
            crowd.sent / took_s,
            broker_share,
            instance_share,
        )


class _Crowd:
    """Connections that were greeted, each of a client of its own."""

    def __init__(self, host: str, port: int, greeting: bytes, log: bytes, count: int) -> None:
        self._log = log
        self.sent = 0
        self.largest = 0
        """Bytes of the largest publication."""
        self._poll = select.epoll()
        self._connections: list[socket.socket] = []
        self._sequences = [0] * count
        for _ in range(count):
            connection = socket.create_connection((host, port))
            connection.sendall(greeting)
            assert connection.recv(100).startswith(b"+OK")
            self._connections.append(connection)
            self._poll.register(connection.fileno(), select.EPOLLIN)

    def publish(self, rate: float, seconds: float) -> None:
        """Publish at a rate, one client after the other; each waits for the answer to its last one."""
        by_number = {connection.fileno(): connection for connection in self._connections}
        awaited = 0
        begin_s = time.monotonic()
        while (now_s := time.monotonic() - begin_s) < seconds or awaited:
            due = int(rate * min(now_s, seconds)) - self.sent
            for _ in range(min(due, 100)):
                self._send_next()
                awaited += 1
            for number, _ in self._poll.poll(0.001):
                answer = by_number[number].recv(1 << 12)
                assert answer.startswith(b"$"), answer
                awaited -= answer.count(b"$")

    def close(self) -> None:
        """All of them leave."""
        for connection in self._connections:
            connection.close()
        self._poll.close()

    def _send_next(self) -> None:
        client = self.sent % len(self._connections)
        self._sequences[client] += 1
        values = {
            (f"Rank {client}", f"field {number}", "min"): as_leaf(self.sent + 0.5 * number)
            for number in range(VALUES)
        }
        publication = Publication(
            f"{client:032x}", client, self._sequences[client], time.time_ns() // 1000, 1, Change(values, {})
        )
        data = encode(publication)
        self.largest = max(self.largest, len(data))
        command = _command(b"XADD", self._log, b"NOMKSTREAM", b"*", PAYLOAD, data)
        self._connections[client].sendall(command)
        self.sent += 1


def _command(*words: bytes) -> bytes:
    """As it stands in Redis's protocol."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)
