"""Slow, obvious twins of what counts messages and keeps them: dictionaries, one row at a time."""

from __future__ import annotations

from collections.abc import Iterable

from chimbuko.ad.analysis.streamtelemetry import MOST_RANKS
from chimbuko.ad.kernels.channels import MOST_MESSAGE_BYTES
from chimbuko.core.arrays import Rows
from chimbuko.core.traceschema import TraceStep
from chimbuko.runtime.protocol.telemetry import OTHERS

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
            is_without = key not in self.pairs and len(self.pairs) == self.most_pairs
            if destination == OTHERS or is_without:
                key, held = (program, rank, OTHERS), self.others
            total = held.setdefault(key, [0, 0])
            total[0] += messages
            total[1] += size_bytes

    def everything(self) -> dict[Key, list[int]]:
        return self.pairs | self.others


def slow_sends(steps: Iterable[TraceStep], rank: int, send_type: int) -> dict[int, list[int]]:
    """What a rank sent in some steps: destination to messages and bytes."""
    found: dict[int, list[int]] = {}
    for step in steps:
        for program, sender, _, kind, _, partner, size_bytes, _ in step.comms.tolist():
            if program == 0 and sender == rank and kind == send_type:
                total = found.setdefault(partner if partner < MOST_RANKS else OTHERS, [0, 0])
                total[0] += 1
                total[1] += size_bytes if size_bytes < MOST_MESSAGE_BYTES else 0
    return found
