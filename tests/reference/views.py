"""Slow, obvious twins of ``chimbuko.pserver.keyed`` and ``traffic``: dictionaries, one row at a time."""

from __future__ import annotations

from chimbuko.views import OTHERS, Rows

Key = tuple[int, int, int]


class SlowIndex:
    """A number for each key, in order of first mention."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.numbers: dict[Key, int] = {}

    def row(self, key: Key) -> int:
        if key not in self.numbers and len(self.numbers) < self.most:
            self.numbers[key] = len(self.numbers)
        return self.numbers.get(key, -1)


class SlowTraffic:
    """Messages and bytes by (program, rank, destination)."""

    def __init__(self, most_pairs: int) -> None:
        self.most_pairs = most_pairs
        self.pairs: dict[Key, list[int]] = {}
        self.others: dict[Key, list[int]] = {}

    def take(self, traffic: Rows) -> None:
        for program, rank, destination, messages, size_bytes in traffic.tolist():
            key = program, rank, destination
            held = self.pairs
            if key not in self.pairs and len(self.pairs) == self.most_pairs:
                key, held = (program, rank, OTHERS), self.others
            total = held.setdefault(key, [0, 0])
            total[0] += messages
            total[1] += size_bytes

    def everything(self) -> dict[Key, list[int]]:
        return self.pairs | self.others
