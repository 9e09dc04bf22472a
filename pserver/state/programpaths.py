"""What calls took by call path, over all ranks. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chimbuko.core.arrays import Int64Array, Rows
from chimbuko.core.calls.pathtable import MOST_PATHS, OTHER_PATHS, PATH, PathTable
from chimbuko.core.kernels.paths import NONE, OTHERS
from chimbuko.runtime.protocol.messages import PathStatistics
from chimbuko.runtime.protocol.telemetry import ProgramPaths

GROWTH = 1.1
"""Paths are reported again when they have grown by a tenth."""


class _Program:
    """The call paths of one program; functions have global numbers."""

    def __init__(self) -> None:
        self.table = PathTable()
        self.reported = np.zeros(MOST_PATHS, np.int64)
        """i8[paths]: calls when the path was reported."""


class Paths:
    """Adds up what agents report.

    Parameters
    ----------
    function_name
        Name of a global function number.
    """

    def __init__(self, function_name: Callable[[int], str]) -> None:
        self._function_name = function_name
        self._programs: dict[int, _Program] = {}
        self._changed: set[int] = set()

    def take(self, reported: ProgramPaths, numbers: Int64Array) -> None:
        """Add calls of one program; ``numbers`` i8[n]: global number of each of the sender's functions.

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
        """Those that have grown by a tenth since they were reported."""
        changes = []
        for number in sorted(self._changed):
            program = self._programs[number]
            calls = program.table.rows["calls"]
            grown = np.flatnonzero(calls > GROWTH * program.reported[: len(calls)])
            program.reported[grown] = calls[grown]
            changes += self._statistics(number, grown)
        self._changed.clear()
        return changes

    def everything(self) -> list[PathStatistics]:
        """All that were called."""
        return [
            one
            for number, program in sorted(self._programs.items())
            for one in self._statistics(number, np.flatnonzero(program.table.rows["calls"]))
        ]

    def dump(self) -> list[ProgramPaths]:
        """For ``restore``."""
        return [
            ProgramPaths(number, program.table.rows.tobytes()) for number, program in self._programs.items()
        ]

    def restore(self, saved: list[ProgramPaths]) -> None:
        """Go on from what was dumped; for a new one."""
        for one in saved:
            self._add(one.program, np.frombuffer(one.rows, PATH))

    def _add(self, program: int, rows: Rows) -> None:
        self._programs.setdefault(program, _Program()).table.add(rows)
        self._changed.add(program)

    def _statistics(self, number: int, paths: Int64Array) -> list[PathStatistics]:
        rows = self._programs[number].table.rows
        parents, functions = rows["parent"].tolist(), rows["function"].tolist()
        reported = []
        for path, row in zip(paths.tolist(), rows[paths].tolist(), strict=True):
            _, _, calls, *runtimes = row
            names: list[str] = []
            while path not in (OTHERS, NONE):
                names.append(self._function_name(functions[path]))
                path = parents[path]
            reported.append(
                PathStatistics(
                    number,
                    names[::-1] or [OTHER_PATHS],
                    calls,
                    *(*_moments(calls, *runtimes[:2]), *runtimes[2:4]),
                    *(*_moments(calls, *runtimes[4:6]), *runtimes[6:]),
                )
            )
        return reported


def _moments(calls: int, total: float, squares: float) -> tuple[float, float]:
    """Mean and sample standard deviation; of whole numbers, so that nothing cancels."""
    if calls == 1:
        return total, 0.0
    variance = (calls * int(squares) - int(total) ** 2) / (calls * (calls - 1))
    return total / calls, max(variance, 0.0) ** 0.5
