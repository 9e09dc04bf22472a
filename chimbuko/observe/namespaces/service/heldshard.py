"""A shard that this process merges, and the limits of what is kept of its log and its leaves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, cast

import redis

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.keys import Shard
from chimbuko.observe.namespaces.exchange.paths import Path, format_path
from chimbuko.observe.namespaces.exchange.shardstate import CHUNK, Entry, ShardState, Taken, entries_after
from chimbuko.runtime.process.lifetime import log

READERS_MS = 10_000
"""Age in ms up to which a publication stays in the log in any case: somebody may just be reading it."""
MOST_CLIENTS = 20_000
"""Most clients of a shard whose last publication is remembered."""
ENTRY_BYTES = 100
"""Memory that an entry takes at the broker beside its own bytes, roughly."""


class Retention:
    """Limits of what a shard keeps.

    Parameters
    ----------
    keep_bytes
        Bytes to keep of the log, and of the leaves.
    """

    def __init__(self, keep_bytes: int, state: ShardState) -> None:
        self._keep_bytes = keep_bytes
        self._state = state
        self._log: deque[tuple[bytes, int]] = deque()
        self._log_bytes = 0
        self._sizes = {path: self._size(path) for path, _ in state.tree}
        self._leaf_bytes = sum(self._sizes.values())

    def note_entries(self, entries: Iterable[Entry]) -> None:
        """Count further entries of the log that are merged."""
        for entry, data in entries:
            size = len(data) + ENTRY_BYTES
            self._log.append((entry, size))
            self._log_bytes += size

    def first_kept(self) -> bytes | None:
        """Return the id of the first entry of the log that is kept; None if all are."""
        if not self._log:
            return None
        newest_ms = _moment_ms(self._log[-1][0])
        is_cut = False
        while self._log_bytes > self._keep_bytes and _moment_ms(self._log[0][0]) < newest_ms - READERS_MS:
            _, size = self._log.popleft()
            self._log_bytes -= size
            is_cut = True
        return self._log[0][0] if is_cut else None

    def forget(self, taken: Taken) -> None:
        """Forget leaves and clients for which there is no room, the oldest first."""
        for path in taken.gone:
            self._leaf_bytes -= self._sizes.pop(path, 0)
        for path in taken.touched:
            self._leaf_bytes -= self._sizes.pop(path, 0)
            self._sizes[path] = self._size(path)
            self._leaf_bytes += self._sizes[path]
        while self._leaf_bytes > self._keep_bytes:
            self._leaf_bytes -= self._sizes.pop(self._state.forget_oldest(taken))
        self._state.forget_clients(MOST_CLIENTS, taken)

    def _size(self, path: Path) -> int:
        return len(format_path(path).encode()) + len(self._state.encode_leaf(path)) + ENTRY_BYTES


def _moment_ms(entry: bytes) -> int:
    """Return the time in ms at which the broker got an entry of a log."""
    return int(entry.partition(b"-")[0])


LEASE_MS = 2000
"""Time in ms after the death of a process at which another instance takes over its shards."""
WANTED_MS = 1000

_MERGE = """
if redis.call('GET', KEYS[3]) ~= ARGV[1] then
    return 0
end
redis.call('PEXPIRE', KEYS[3], ARGV[2])
if ARGV[3] ~= '' then
    redis.call('XTRIM', KEYS[2], 'MINID', ARGV[3])
end
local set = tonumber(ARGV[4])
for at = 5, 4 + set, 1000 do
    redis.call('HSET', KEYS[1], unpack(ARGV, at, math.min(at + 999, 4 + set)))
end
for at = 5 + set, #ARGV, 1000 do
    redis.call('HDEL', KEYS[1], unpack(ARGV, at, math.min(at + 999, #ARGV)))
end
return 1
"""
"""Script for the broker: state and position change together, and only for the process that holds the shard.
"""

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
"""


class HeldShard:
    """A shard that this process merges.

    Parameters
    ----------
    owner
        Owner of the lease: a name that no other process ever has.
    """

    def __init__(self, client: redis.Redis, shard: Shard, owner: str, keep_bytes: int) -> None:
        self._client = client
        self._shard = shard
        self._owner = owner
        self._state = self._read()
        self._retention = Retention(keep_bytes, self._state)
        self._note_merged()

    @classmethod
    def taken(cls, client: redis.Redis, shard: Shard, owner: str, keep_bytes: int) -> HeldShard | None:
        """Return the shard, if nobody else holds it."""
        if not client.set(shard.lease, owner, nx=True, px=LEASE_MS):
            return None
        return cls(client, shard, owner, keep_bytes)

    def merge(self) -> int | None:
        """Merge new publications, and keep the shard; return the number of publications, or None where
        another process holds the shard now.
        """
        entries = entries_after(self._client, self._shard, self._state.reading.position)
        refused = self._state.reading.counts.refused
        taken = self._state.take(entries)
        if self._state.reading.counts.refused > refused:
            log(f"{self._shard.log}: left out: {self._state.reading.counts.last_refusal}")
        self._retention.note_entries(entries)
        self._retention.forget(taken)
        new, gone = self._state.changed_fields(taken) if entries else ({}, [])
        pairs = [part for pair in new.items() for part in pair]
        keys = (self._shard.state, self._shard.log, self._shard.lease)
        first = self._retention.first_kept() or b""
        arguments: list[Any] = [self._owner, LEASE_MS, first, len(pairs), *pairs, *gone]
        is_held = cast(int, self._client.eval(_MERGE, len(keys), *keys, *arguments))
        return len(entries) if is_held else None

    def is_wanted(self) -> bool:
        """Whether the process that should hold the shard is there again."""
        return bool(self._client.exists(self._shard.wanted))

    def release(self) -> None:
        """Let another process take the shard."""
        self._client.eval(_RELEASE, 1, self._shard.lease, self._owner)

    def _read(self) -> ShardState:
        fields = cast(dict[bytes, bytes], self._client.hgetall(self._shard.state))
        try:
            return ShardState.of(fields)
        except ObservationError as error:
            # The state is of another version: it is built anew from the log.
            log(f"{self._shard.state}: begins anew: {error}")
            self._client.delete(self._shard.state)
            return ShardState()

    def _note_merged(self) -> None:
        """Read the size of the log that earlier processes have merged."""
        position = self._state.reading.position
        after = b"0-0"
        while entries := [
            entry
            for entry in entries_after(self._client, self._shard, after)
            if _order(entry[0]) <= _order(position)
        ]:
            self._retention.note_entries(entries)
            after = entries[-1][0]
            if len(entries) < CHUNK:
                break


def make_log(client: redis.Redis, shard: Shard) -> None:
    """Make the log of a shard that is to be served, so that clients can publish into it."""
    if not client.exists(shard.log):
        # A group of readers, which there is none of, makes an empty stream.
        try:
            client.xgroup_create(shard.log, "made", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise


def _order(entry: bytes) -> tuple[int, int]:
    moment, _, number = entry.partition(b"-")
    return int(moment), int(number)
