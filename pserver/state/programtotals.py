"""Totals of programs over all ranks: counters, out of totals that streams report, and calls by call path."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array, Int64Array, Rows
from chimbuko.core.calls.pathtable import MOST_PATHS, OTHER_PATHS, PATH, PathTable, has_news
from chimbuko.core.calls.record import CounterStatistics
from chimbuko.core.kernels.merge import merge_rows
from chimbuko.core.kernels.paths import NONE, OTHERS
from chimbuko.core.kernels.rules import RULE_MOMENTS
from chimbuko.core.statistics.moments import EMPTY
from chimbuko.runtime.protocol.messages import PathStatistics
from chimbuko.runtime.protocol.telemetry import ProgramCounter, ProgramPaths, StreamCounters

GROWTH = 1.1
"""Growth factor of a counter, or call path, after which it is reported again."""


class SavedCounter(msgspec.Struct, frozen=True, array_like=True):
    """Saved state of one counter of one program."""

    program: int
    name: str
    ranks: bytes
    """Ranks in the order of their rows, int64[n]."""
    moments: bytes
    """Moments of the counter on each rank, float64[n, 7]."""


_COLUMN = np.array([0]), np.array([len(EMPTY)]), np.array([RULE_MOMENTS])


class _Counter(msgspec.Struct):
    """One counter of one program, by rank."""

    ranks: dict[int, int] = msgspec.field(default_factory=dict)
    """Row of each rank."""
    moments: Float64Array = msgspec.field(default_factory=lambda: np.empty((0, len(EMPTY))))
    """Moments of the counter on each rank, float64[rows, 7]."""
    values: float = 0.0
    reported: float = 0.0
    """Number of values when the counter was last reported; ``values`` is the current number."""

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


class ProgramCounters:
    """Newest counter totals of each stream, so that totals reported twice, or anew, change nothing."""

    def __init__(self) -> None:
        self._counters: dict[tuple[int, str], _Counter] = {}

    def take(self, streams: list[StreamCounters]) -> None:
        """Take in totals that streams have reported."""
        for stream in streams:
            for statistics in stream.counters:
                counter = self._counters.setdefault((stream.program, statistics.name), _Counter())
                counter.put(stream.rank, statistics)

    def changes(self) -> list[ProgramCounter]:
        """Return the counters that have grown by a tenth since they were reported."""
        reported = []
        for key, counter in self._counters.items():
            if counter.values > GROWTH * counter.reported:
                counter.reported = counter.values
                reported.append(_total(key, counter))
        return reported

    def everything(self) -> list[ProgramCounter]:
        """Return all counters."""
        return [_total(key, counter) for key, counter in self._counters.items()]

    def dump(self) -> list[SavedCounter]:
        """Return everything, for ``restore``."""
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
        """Restore what was dumped, into a new object."""
        for one in saved:
            ranks = np.frombuffer(one.ranks, np.int64).tolist()
            moments = np.frombuffer(one.moments).reshape(-1, len(EMPTY)).copy()
            values = float(moments[:, 0].sum())
            rows = {rank: row for row, rank in enumerate(ranks)}
            self._counters[one.program, one.name] = _Counter(rows, moments, values, values)


def _total(key: tuple[int, str], counter: _Counter) -> ProgramCounter:
    program, name = key
    return ProgramCounter(program, len(counter.ranks), CounterStatistics(name, *counter.merged().tolist()))


class _Program:
    """Call paths of one program, by global function numbers."""

    def __init__(self) -> None:
        self.table = PathTable()
        self.reported = {name: np.zeros(MOST_PATHS) for name in ("begun", "spent_us")}
        """Calls and time of each path when it was last reported, float64[paths]."""


class ProgramCallPaths:
    """Calls by call path of all programs, added up from what agents report.

    Parameters
    ----------
    function_name
        Callback that returns the name of a global function number.
    """

    def __init__(self, function_name: Callable[[int], str]) -> None:
        self._function_name = function_name
        self._programs: dict[int, _Program] = {}
        self._changed: set[int] = set()

    def take(self, reported: ProgramPaths, numbers: Int64Array) -> None:
        """Add calls of one program; ``numbers``, int64[n], are the global numbers of the sender's functions.

        Raises
        ------
        ValueError
            The rows are damaged; nothing was added.
        """
        rows = np.frombuffer(reported.rows, PATH).copy()
        if rows["function"].max(initial=NONE) >= len(numbers) or rows["function"][1:].min(initial=0) < 0:
            raise ValueError("call paths of functions that the agent has not named")
        rows["function"][1:] = numbers[rows["function"][1:]]
        self._add(reported.program, rows)

    def changes(self) -> list[PathStatistics]:
        """Return the paths that have grown by a tenth since they were reported."""
        changes = []
        for number in sorted(self._changed):
            program = self._programs[number]
            rows = program.table.rows
            is_grown = np.zeros(len(rows), np.bool_)
            for name, reported in program.reported.items():
                is_grown |= rows[name] > GROWTH * reported[: len(rows)]
            grown = np.flatnonzero(is_grown)
            for name, reported in program.reported.items():
                reported[grown] = rows[name][grown]
            changes += self._statistics(number, grown)
        self._changed.clear()
        return changes

    def everything(self) -> list[PathStatistics]:
        """Return all paths with calls."""
        return [
            one
            for number, program in sorted(self._programs.items())
            for one in self._statistics(number, np.flatnonzero(has_news(program.table.rows)))
        ]

    def dump(self) -> list[ProgramPaths]:
        """Return everything, for ``restore``."""
        return [
            ProgramPaths(number, program.table.rows.tobytes()) for number, program in self._programs.items()
        ]

    def restore(self, saved: list[ProgramPaths]) -> None:
        """Restore what was dumped, into a new object."""
        for one in saved:
            self._add(one.program, np.frombuffer(one.rows, PATH))

    def _add(self, program: int, rows: Rows) -> None:
        self._programs.setdefault(program, _Program()).table.add(rows)
        self._changed.add(program)

    def _statistics(self, number: int, paths: Int64Array) -> list[PathStatistics]:
        rows = self._programs[number].table.rows
        parents, functions = rows["parent"].tolist(), rows["function"].tolist()
        known: dict[int, list[str]] = {OTHERS: [], NONE: []}

        def names(path: int) -> list[str]:
            if path not in known:
                known[path] = [*names(parents[path]), self._function_name(functions[path])]
            return known[path]

        reported = []
        for path, row in zip(paths.tolist(), rows[paths].tolist(), strict=True):
            _, _, calls, *runtimes, begun, spent_us, looked_us, asleep_us = row
            reported.append(
                PathStatistics(
                    number,
                    names(path) or [OTHER_PATHS],
                    calls,
                    *_spread(calls, *runtimes[:4]),
                    *_spread(calls, *runtimes[4:]),
                    begun,
                    spent_us,
                    looked_us,
                    asleep_us,
                )
            )
        return reported


def _spread(
    calls: int, total: float, squares: float, minimum: float, maximum: float
) -> tuple[float, float, float, float]:
    """Return mean, sample standard deviation, minimum and maximum; zeros without calls."""
    return (*_moments(calls, total, squares), minimum, maximum) if calls else (0.0, 0.0, 0.0, 0.0)


def _moments(calls: int, total: float, squares: float) -> tuple[float, float]:
    """Return mean and sample standard deviation; computed in integers, so that nothing cancels."""
    if calls == 1:
        return total, 0.0
    variance = (calls * int(squares) - int(total) ** 2) / (calls * (calls - 1))
    return total / calls, max(variance, 0.0) ** 0.5
