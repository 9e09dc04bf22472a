"""State of a shard: the leaves that result from all publications of its log. No I/O.

Publications are taken in the order of the log. A client that did not hear whether one arrived sends it again,
with the same number, and it counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import redis

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.keys import Shard
from chimbuko.observe.namespaces.exchange.paths import Path, format_path, parse_path
from chimbuko.observe.namespaces.exchange.tree import Tree, apply
from chimbuko.observe.namespaces.exchange.wire import Publication, decode, decode_leaf, encode_leaf
from chimbuko.runtime.protocol.messages import PAYLOAD

Entry = tuple[bytes, bytes]
"""Entry of a log: its id there, and a publication."""
Fields = Mapping[bytes, bytes]
_ABOUT = b""
"""Field of a stored state that concerns the whole shard; paths are not empty."""
_CLIENT = b"\0"
"""Prefix of the fields of clients; paths do not begin with it."""
FIRST = b"0-0"
CHUNK = 1000
"""Number of entries that are read at once."""


class Counts(msgspec.Struct):
    """Counts of the publications that a shard has taken."""

    position: str = FIRST.decode()
    """Id of the last entry of the log that is in the state."""
    publications: int = 0
    commits: int = 0
    repeated: int = 0
    """Number of publications that had been taken before."""
    refused: int = 0
    """Number of publications that were not understood."""
    last_refusal: str = ""
    forgotten: int = 0
    """Number of leaves that were removed to keep within the limit."""


@dataclass
class Taken:
    """Effect of publications: the parts of a stored state that have changed."""

    touched: dict[Path, None] = field(default_factory=dict)
    gone: dict[Path, None] = field(default_factory=dict)
    clients: dict[str, None] = field(default_factory=dict)
    lost_clients: dict[str, None] = field(default_factory=dict)


class LogReading:
    """Position up to which a log has been read, and the publications that were in it."""

    def __init__(self) -> None:
        self.clients: dict[str, int] = {}
        """Number of the last publication of each client, the most recent clients at the end."""
        self.counts = Counts()

    @property
    def position(self) -> bytes:
        """Id of the last entry that was read."""
        return self.counts.position.encode()

    def take(self, entries: Iterable[Entry]) -> Iterator[tuple[bytes, Publication]]:
        """Read further entries, and yield those that are new and understood."""
        for entry, data in entries:
            self.counts.position = entry.decode()
            try:
                publication = decode(data)
            except ObservationError as error:
                self.counts.refused += 1
                self.counts.last_refusal = str(error)
                continue
            if publication.sequence <= self.clients.get(publication.client, 0):
                self.counts.repeated += 1
                continue
            self.clients.pop(publication.client, None)
            self.clients[publication.client] = publication.sequence
            self.counts.publications += 1
            self.counts.commits += publication.commits
            yield entry, publication


class ShardState:
    """All leaves of a shard."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.times_us: dict[Path, int] = {}
        """Time at which each leaf changed last, by the clock of the client that changed it."""
        self.reading = LogReading()

    def take(self, entries: Iterable[Entry]) -> Taken:
        """Merge further entries of the log."""
        taken = Taken()
        for _, publication in self.reading.take(entries):
            for path in apply(self.tree, publication.change):
                self._note_gone(path, taken)
            for path, _ in publication.change:
                self.times_us[path] = publication.time_us
                taken.gone.pop(path, None)
                taken.touched[path] = None
            taken.clients[publication.client] = None
        return taken

    def forget_oldest(self, taken: Taken) -> Path:
        """Forget the leaf that has not changed for the longest time."""
        path = self.tree.oldest()
        self.tree.remove(path)
        self.reading.counts.forgotten += 1
        self._note_gone(path, taken)
        return path

    def forget_clients(self, most: int, taken: Taken) -> None:
        """Forget clients but those that published last."""
        clients = self.reading.clients
        while len(clients) > most:
            client = next(iter(clients))
            del clients[client]
            taken.clients.pop(client, None)
            taken.lost_clients[client] = None

    def _note_gone(self, path: Path, taken: Taken) -> None:
        del self.times_us[path]
        taken.touched.pop(path, None)
        taken.gone[path] = None

    def encode_leaf(self, path: Path) -> bytes:
        """Return a leaf as it is stored."""
        leaf = self.tree.get(path)
        assert leaf is not None
        return encode_leaf(leaf, self.times_us[path])

    def changed_fields(self, taken: Taken) -> tuple[dict[bytes, bytes], list[bytes]]:
        """Return the fields to be set in a stored state, and those to be removed."""
        new = {format_path(path).encode(): self.encode_leaf(path) for path in taken.touched}
        new |= {_CLIENT + client.encode(): b"%d" % self.reading.clients[client] for client in taken.clients}
        new[_ABOUT] = msgspec.json.encode(self.reading.counts)
        gone = [format_path(path).encode() for path in taken.gone]
        return new, gone + [_CLIENT + client.encode() for client in taken.lost_clients]

    @classmethod
    def of(cls, fields: Fields) -> ShardState:
        """Return the state from its stored fields.

        Raises
        ------
        ObservationError
            It is of another version, or damaged.
        """
        state = cls()
        leaves = []
        for name, value in fields.items():
            if name == _ABOUT:
                state.reading.counts = msgspec.json.decode(value, type=Counts)
            elif name.startswith(_CLIENT):
                state.reading.clients[name[1:].decode()] = int(value)
            else:
                leaf, time_us = decode_leaf(value)
                leaves.append((time_us, parse_path(name.decode()), leaf))
        for time_us, path, leaf in sorted(leaves, key=lambda entry: entry[:2]):
            state.tree.put(path, leaf)
            state.times_us[path] = time_us
        return state


def entries_after(client: redis.Redis, shard: Shard, after: bytes, count: int = CHUNK) -> list[Entry]:
    """Return the next entries of a log after an id."""
    answer = cast(list[Any], client.xrange(shard.log, min=b"(" + after, count=count))
    return [(entry, fields.get(PAYLOAD, b"")) for entry, fields in answer]
