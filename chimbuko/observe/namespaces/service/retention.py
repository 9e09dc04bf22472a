"""How much a shard keeps: its log and its leaves within a size each. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from chimbuko.observe.namespaces.exchange.shardstate import Entry, ShardState, Taken
from chimbuko.observe.namespaces.tree.paths import Path, format_path

READERS_MS = 10_000
"""What was published so short a time ago stays in the log in any case: somebody may just be reading it."""
MOST_CLIENTS = 20_000
"""Clients of a shard of which it is known what they published last."""
ENTRY_BYTES = 100
"""What an entry takes at the broker beside its own bytes, about."""


class Retention:
    """What a shard keeps.

    Parameters
    ----------
    keep_bytes
        Of the log, and of the leaves.
    """

    def __init__(self, keep_bytes: int, state: ShardState) -> None:
        self._keep_bytes = keep_bytes
        self._state = state
        self._log: deque[tuple[bytes, int]] = deque()
        self._log_bytes = 0
        self._sizes = {path: self._size(path) for path, _ in state.tree}
        self._leaf_bytes = sum(self._sizes.values())

    def note_entries(self, entries: Iterable[Entry]) -> None:
        """Further entries of the log are merged."""
        for entry, data in entries:
            size = len(data) + ENTRY_BYTES
            self._log.append((entry, size))
            self._log_bytes += size

    def first_kept(self) -> bytes | None:
        """Id of the first entry of the log that is kept; None where all are."""
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
    """When the broker got an entry of a log."""
    return int(entry.partition(b"-")[0])
