"""What a page has to show of a run that has ended: from the tables of its store, by other code."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
from sqlalchemy import func, select

from benchmarks.dashboard.history import PROGRAM
from chimbuko.provenance.store.engine import close, open_for_reading
from chimbuko.provenance.store.tables import FUNCTION_STATISTICS, FUNCTIONS, STEPS
from chimbuko.runtime.runs.directory import RunDirectory

MOST_IN_CELL = 254

Shown = dict[str, Any]
"""What ``page.ts`` reports of a page."""


class Truth:
    """The stored steps and functions of a run of one program.

    Its ranks are numbered from 0 and have as many steps each.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._engine = open_for_reading(run.read_info().store_url)
        step = STEPS.c
        name, counted = FUNCTIONS.c.name, FUNCTION_STATISTICS.c
        with self._engine.connect() as connection:
            lengths = connection.execute(select(step.rank, func.count()).group_by(step.rank)).all()
            flagged = connection.execute(
                select(step.rank, step.step, step.anomalies).where(step.anomalies > 0)
            ).all()
            functions = connection.execute(
                select(name, counted.severity_us, counted.anomalies).where(
                    FUNCTIONS.c.number == counted.function
                )
            ).all()
        if len({length for _, length in lengths}) != 1:
            raise ValueError("ranks have different numbers of steps")
        self.anomalies = np.zeros((len(lengths), lengths[0][1]), np.int64)
        """i8[ranks, steps]"""
        rank, number, count = np.array(flagged, np.int64).reshape(-1, 3).T
        self.anomalies[rank, number] = count
        self.functions = {name: (severity_us, anomalies) for name, severity_us, anomalies in functions}
        """Name to severity in µs and anomalies."""

    def close(self) -> None:
        """Let go of the store."""
        close(self._engine)

    def steps(self, rank: int) -> list[list[float]]:
        """Of one rank, as the API reports them."""
        columns = list(STEPS.c)[3:]
        with self._engine.connect() as connection:
            rows = connection.execute(select(*columns).where(STEPS.c.rank == rank).order_by(STEPS.c.step))
            return [list(row) for row in rows]

    def differences(self, shown: Shown) -> list[str]:
        """Parts of a page that do not show what is stored; empty where all do."""
        checks: dict[str, Callable[[Any], bool]] = {
            "status": self._has_status,
            "ranking": self._has_ranking,
            "functions": self._has_functions,
            "series": self._has_steps,
            "grid": self._has_cells,
        }
        return [part for part, holds in checks.items() if shown[part] is None or not holds(shown[part])]

    def _has_status(self, status: Shown) -> bool:
        ranks, steps = self.anomalies.shape
        reported = status["state"], status["anomalies"], status["ranks"], status["last_step"]
        return reported == ("ended", int(self.anomalies.sum()), ranks, steps - 1)

    def _has_ranking(self, ranking: Shown) -> bool:
        """By the average, as no rank is known as an origin; ties may stand in any order."""
        means = self.anomalies.mean(axis=1)
        top = ranking["top"]
        values = [row["value"] for row in top]
        highest = np.sort(means)[::-1][: len(top)]
        return (
            (ranking["by"], ranking["ranks"]) == ("mean", len(means))
            and len(top) > 0
            and np.allclose(values, [means[row["rank"]] for row in top])
            and np.allclose(values, highest)
        )

    def _has_functions(self, functions: Shown) -> bool:
        """By time lost; ties may stand in any order."""
        named = [(row["severity_us"], row["anomalies"]) for row in functions["top"]]
        highest = sorted((severity_us for severity_us, _ in self.functions.values()), reverse=True)
        return (
            named == [self.functions[row["name"]] for row in functions["top"]]
            and [severity_us for severity_us, _ in named] == highest[: len(named)]
        )

    def _has_steps(self, series: list[Shown]) -> bool:
        return bool(series) and all(one["rows"] == self.steps(_rank(one["rank"])) for one in series)

    def _has_cells(self, grid: Shown) -> bool:
        cells = np.frombuffer(base64.b64decode(grid["cells"]), np.uint8)
        return np.array_equal(cells.reshape(grid["rows"], grid["columns"]), self.cells(grid))

    def cells(self, grid: Shown) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """What cells of these ranks and steps have to be, row by row."""
        rows, columns = grid["ranks_per_row"], grid["steps_per_column"]
        most = self.anomalies.clip(max=MOST_IN_CELL)
        firsts = [
            np.arange(0, length, group) for length, group in zip(most.shape, (rows, columns), strict=True)
        ]
        by_rank = np.maximum.reduceat(most, firsts[0], axis=0)
        return np.maximum.reduceat(by_rank, firsts[1], axis=1)


def _rank(key: str) -> int:
    return int(key.removeprefix(f"{PROGRAM}:"))
