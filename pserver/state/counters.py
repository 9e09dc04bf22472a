"""Counters over all ranks of a program, from the totals that each stream reports. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.record import CounterStatistics
from chimbuko.core.kernels.merge import merge_rows
from chimbuko.core.kernels.rules import RULE_MOMENTS
from chimbuko.core.statistics.moments import EMPTY
from chimbuko.runtime.protocol.telemetry import ProgramCounter, StreamCounters

GROWTH = 1.1
"""Counters are reported again when they have grown by a tenth."""


class SavedCounter(msgspec.Struct, frozen=True, array_like=True):
    """One counter of one program, as it is saved."""

    program: int
    name: str
    ranks: bytes
    """i8[n]"""
    moments: bytes
    """f8[n, 7]"""


_COLUMN = np.array([0]), np.array([len(EMPTY)]), np.array([RULE_MOMENTS])


@dataclass
class _Counter:
    """One counter of one program."""

    ranks: dict[int, int] = field(default_factory=dict)
    """Rank to its row."""
    moments: Float64Array = field(default_factory=lambda: np.empty((0, len(EMPTY))))
    """f8[rows, 7]"""
    values: float = 0.0
    reported: float = 0.0
    """How many values there are, and were when it was reported."""

    def put(self, rank: int, statistics: CounterStatistics) -> None:
        row = self.ranks.setdefault(rank, len(self.ranks))
        if row == len(self.moments):
            room = np.tile(EMPTY, (max(row, 1), 1))
            self.moments = np.concatenate([self.moments, room])
        self.values += statistics.n - self.moments[row, 0]
        self.moments[row] = msgspec.structs.astuple(statistics)[1:]

    def merged(self) -> Float64Array:
        total: Float64Array = EMPTY.copy()
        count = len(self.ranks)
        merge_rows(total.reshape(1, -1), np.zeros(count, np.int64), self.moments[:count], *_COLUMN)
        return total


class Counters:
    """Keeps the newest totals of each stream, so that reporting them twice, or anew, changes nothing."""

    def __init__(self) -> None:
        self._counters: dict[tuple[int, str], _Counter] = {}

    def take(self, streams: list[StreamCounters]) -> None:
        """Totals that streams have reported."""
        for stream in streams:
            for statistics in stream.counters:
                counter = self._counters.setdefault((stream.program, statistics.name), _Counter())
                counter.put(stream.rank, statistics)

    def changes(self) -> list[ProgramCounter]:
        """Those that have grown by a tenth since they were reported."""
        reported = []
        for key, counter in self._counters.items():
            if counter.values > GROWTH * counter.reported:
                counter.reported = counter.values
                reported.append(_total(key, counter))
        return reported

    def everything(self) -> list[ProgramCounter]:
        """All of them."""
        return [_total(key, counter) for key, counter in self._counters.items()]

    def dump(self) -> list[SavedCounter]:
        """For ``restore``."""
        return [
            SavedCounter(
                program,
                name,
                np.array(list(counter.ranks), np.int64).tobytes(),
                counter.moments[: len(counter.ranks)].tobytes(),
            )
            for (program, name), counter in self._counters.items()
        ]

    def restore(self, saved: list[SavedCounter]) -> None:
        """Go on from what was dumped; for a new one."""
        for one in saved:
            ranks = np.frombuffer(one.ranks, np.int64).tolist()
            moments = np.frombuffer(one.moments).reshape(-1, len(EMPTY)).copy()
            values = float(moments[:, 0].sum())
            rows = {rank: row for row, rank in enumerate(ranks)}
            self._counters[one.program, one.name] = _Counter(rows, moments, values, values)


def _total(key: tuple[int, str], counter: _Counter) -> ProgramCounter:
    program, name = key
    return ProgramCounter(program, len(counter.ranks), CounterStatistics(name, *counter.merged().tolist()))
