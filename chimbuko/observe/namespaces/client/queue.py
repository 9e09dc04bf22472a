"""Publications that wait to be sent, within a limit, in order. No I/O.

Where too much waits, because nobody answers for a long time, publications to the same shard are put together
into one: then only the values in between are lost of what was overwritten, and nothing of what was appended.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from chimbuko.observe.namespaces.exchange.keys import Shard
from chimbuko.observe.namespaces.tree.wire import LARGEST_BYTES, Publication, encode

COMPACT_BYTES = 8 << 20
"""So much waits before publications are put together."""
MOST_BYTES = 64 << 20
"""So much waits at most."""


@dataclass
class Letter:
    """A publication on its way, and who waits for its arrival.

    Raises
    ------
    ObservationError
        It is too large.
    """

    shard: Shard
    publication: Publication
    arrivals: list[Future[None]] = field(default_factory=list)
    data: bytes = b""
    """The publication encoded."""

    def __post_init__(self) -> None:
        self.data = encode(self.publication)

    @property
    def size_bytes(self) -> int:
        """What it takes."""
        return len(self.data)

    def with_later(self, later: Letter) -> Letter:
        """Both as one."""
        old, new = self.publication, later.publication
        both = Publication(
            new.client,
            new.rank,
            new.sequence,
            new.time_us,
            old.commits + new.commits,
            old.change.then(new.change),
        )
        return Letter(self.shard, both, self.arrivals + later.arrivals)


class LetterQueue:
    """Letters in the order in which they are to be sent."""

    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, letter: Letter) -> bool:
        """Add one at the end; False where there is no room for it."""
        if self.size_bytes + letter.size_bytes > COMPACT_BYTES:
            self._compact()
        if self.size_bytes + letter.size_bytes > MOST_BYTES:
            return False
        self._letters.append(letter)
        self.size_bytes += letter.size_bytes
        return True

    def take(self, most: int) -> list[Letter]:
        """Take the first ones out."""
        taken = [self._letters.popleft() for _ in range(min(most, len(self._letters)))]
        self.size_bytes -= sum(letter.size_bytes for letter in taken)
        return taken

    def _compact(self) -> None:
        last: dict[Shard, Letter] = {}
        kept: list[Letter] = []
        for letter in self._letters:
            before = last.get(letter.shard)
            if before is not None and before.size_bytes + letter.size_bytes < LARGEST_BYTES // 2:
                letter, place = before.with_later(letter), kept.index(before)
                kept[place] = letter
            else:
                kept.append(letter)
            last[letter.shard] = letter
        self._letters = deque(kept)
        self.size_bytes = sum(letter.size_bytes for letter in kept)
