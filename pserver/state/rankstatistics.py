"""Anomalies per step, and time lost, of each rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from chimbuko.core.arrays import Int64Array, RankKey, grown
from chimbuko.core.calls.record import StepCount
from chimbuko.core.kernels.rowindex import add_values
from chimbuko.core.kernels.rules import MOMENTS_WIDTH
from chimbuko.core.statistics.moments import EMPTY
from chimbuko.runtime.protocol.messages import RankStatistics


class SavedRanks(msgspec.Struct, frozen=True, array_like=True):
    """Saved state of ``Ranks``, for a server that takes over."""

    keys: list[RankKey]
    per_step: bytes
    """Moments of the anomalies per step of each rank, float64[ranks, 7]."""
    severity_us: bytes
    """Severity of each rank's flagged calls in µs, float64[ranks]."""
    last_steps: list[int]


class Ranks:
    """Statistics of ranks, in order of first mention."""

    def __init__(self) -> None:
        self._rows: dict[RankKey, int] = {}
        self._per_step = np.tile(EMPTY, (64, 1))
        self._severity_us = np.zeros(64)
        self._last_steps: list[int] = []
        self._waiting: list[tuple[int, StepCount]] = []
        """Steps that are not counted yet, each with the row of its rank."""

    @classmethod
    def restored(cls, saved: SavedRanks) -> Ranks:
        """Return the state that was saved."""
        ranks = cls()
        ranks._rows = {key: row for row, key in enumerate(saved.keys)}
        ranks._last_steps = list(saved.last_steps)
        count = len(saved.keys)
        ranks._reserve(count)
        ranks._per_step[:count] = np.frombuffer(saved.per_step).reshape(count, MOMENTS_WIDTH)
        ranks._severity_us[:count] = np.frombuffer(saved.severity_us)
        return ranks

    def save(self) -> SavedRanks:
        """Return everything, to be saved."""
        self._settle()
        count = len(self._rows)
        return SavedRanks(
            list(self._rows),
            self._per_step[:count].tobytes(),
            self._severity_us[:count].tobytes(),
            list(self._last_steps),
        )

    def __len__(self) -> int:
        return len(self._rows)

    def count(self, steps: Iterable[StepCount]) -> list[tuple[int, StepCount]]:
        """Count steps; return those that are new, each with the row of its rank.

        A restarted agent may send steps again that it had spooled; steps of a rank only rise.
        """
        new = []
        for step in steps:
            row = self._row((step.program, step.rank))
            if step.step > self._last_steps[row]:
                self._last_steps[row] = step.step
                new.append((row, step))
        self._waiting += new
        return new

    def statistics(self, rows: Int64Array) -> list[RankStatistics]:
        """Return statistics of the ranks in these rows."""
        self._settle()
        n, mean, m2, m3, m4, minimum, maximum = self._per_step[rows].T
        m2 = np.maximum(m2, 0.0)
        stddev = np.sqrt(m2 / np.maximum(n - 1, 1.0))
        spread = np.where(m2 > 0, m2, 1.0)
        skewness = np.where(m2 > 0, np.sqrt(n) * m3 / spread**1.5, 0.0)
        kurtosis = np.where(m2 > 0, n * m4 / (spread * spread) - 3.0, 0.0)
        whole = (np.rint(column).astype(np.int64).tolist() for column in (n, n * mean))
        limits = (column.astype(np.int64).tolist() for column in (minimum, maximum))
        columns = zip(
            *whole,
            mean.tolist(),
            stddev.tolist(),
            *limits,
            skewness.tolist(),
            kurtosis.tolist(),
            self._severity_us[rows].tolist(),
            strict=True,
        )
        keys = list(self._rows)
        found = []
        for row, numbers in zip(rows.tolist(), columns, strict=True):
            values: list[Any] = [*keys[row], *numbers, self._last_steps[row]]
            found.append(RankStatistics(*values))
        return found

    def _row(self, key: RankKey) -> int:
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(self._rows)
            self._last_steps.append(-1)
            self._reserve(len(self._rows))
        return row

    def _settle(self) -> None:
        """Count the steps that wait, all at once, since one alone takes as long as a hundred."""
        if not self._waiting:
            return
        rows = np.array([row for row, _ in self._waiting], np.int64)
        add_values(self._per_step, rows, np.array([float(step.anomalies) for _, step in self._waiting]))
        np.add.at(self._severity_us, rows, [step.severity_us for _, step in self._waiting])
        self._waiting.clear()

    def _reserve(self, count: int) -> None:
        self._per_step = grown(self._per_step, count, EMPTY)
        self._severity_us = grown(self._severity_us, count)
