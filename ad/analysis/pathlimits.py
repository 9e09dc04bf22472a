"""Ordinary runtimes on call paths on which calls of a function are clearly shorter than on others.

Each level of a multigrid cycle has a call path of its own, and takes an eighth of the time of the level
above: by the runtimes of the function as a whole only what is beyond the longest level would be abnormal.
"""

from __future__ import annotations

from math import log2

import numpy as np

from chimbuko.ad.calls.callpaths import CallPaths, UsualRuntimes
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.detectors import Detector, Verdicts
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.ad.detectors.robust import Robust
from chimbuko.ad.kernels import label
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Float64Array, Int64Array, Rows, distinct, grown
from chimbuko.core.calls.record import CLEARLY
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames

SETTLED_CALLS = 64
"""Number of calls from which the usual runtime of a path is known well enough to compare paths: to a fifth
of the spread of its calls.
"""
MOST_ROWS = 256
"""Maximum number of paths of a stream that are judged by themselves: 0.5 MB."""


class PathLimits:
    """Limits of such paths, from when calls on them and on a slower path of their function are known."""

    def __init__(self, detector: Detector, config: AnalysisConfig) -> None:
        # The others are there to be compared with their originals, which know no paths.
        self._is_wanted = isinstance(detector, Robust) and not config.is_frozen
        self._use_inclusive = config.metric == "inclusive"
        self._limits = FunctionLimits(detector, config)
        self._schema = detector.schema
        self._table = self._schema.empty(0)
        self._settled = 0
        """Number of paths with enough calls to know what is usual on them."""
        self._rows = np.zeros(0, np.int32)
        """Row in the table of each path, or -1."""
        self._timers = np.empty(0, np.int64)
        """Function of each row."""
        self.edges_us = np.empty(0)
        """Runtime from which a call on each path is not ordinary there, float64[paths]."""

    def find(self, paths: CallPaths, usual: UsualRuntimes, names: StreamNames) -> None:
        """Find paths that are clearly shorter than another one of their function."""
        count = min(paths.count, len(usual.rows))
        is_settled = usual.rows["calls"][:count] >= SETTLED_CALLS
        if not self._is_wanted or is_settled.sum() == self._settled:
            return
        self._settled = int(is_settled.sum())
        self._rows = grown(self._rows, count, NONE)
        self.edges_us = grown(self.edges_us, count, np.inf)
        settled = is_settled.nonzero()[0]
        timers, levels = paths.functions[settled].astype(np.int64), usual.rows["level"][settled]
        highest = np.full(int(timers.max(initial=0)) + 1, -np.inf)
        np.maximum.at(highest, timers, levels)
        is_shorter = (levels <= highest[timers] - log2(CLEARLY)) & (self._rows[settled] == NONE)
        found = is_shorter.nonzero()[0][: MOST_ROWS - len(self._table)]
        for timer, path in zip(timers[found].tolist(), settled[found].tolist(), strict=True):
            if timer in names.timers:
                self._add(timer, path, names.timers[timer])

    def forget(self, paths: Int64Array) -> None:
        """Forget what was learned on these paths, as their calls mean something else from now on."""
        paths = paths[paths < len(self._rows)]
        rows = self._rows[paths].astype(np.int64)
        rows, self.edges_us[paths] = rows[rows != NONE], np.inf
        self._table[rows] = self._schema.identity
        self._limits.forget(rows)

    def learn(self, stacks: CallStacks) -> None:
        """Learn from the calls that ended in a step."""
        if not len(self._table):
            return
        buckets_at = self._schema.slices["buckets"].start
        arguments = stacks.calls, stacks.count, stacks.is_named, self._rows, True, self._use_inclusive
        label.learn_apart(*arguments, buckets_at, self._table)
        rows = np.arange(len(self._table))
        seen = self._table[:, self._schema.slices["exclusive_us"].start]
        # Only a call beyond all those before may be near.
        is_due = self._limits.due(rows, seen, np.zeros((len(rows), 2)))
        self._update(rows[is_due])

    def functions(self, longest_us: Float64Array) -> Int64Array:
        """Return timers of which a call of the step may be abnormal on its path, given the longest ones."""
        return self._timers[longest_us[self._timers] >= self._row_edges_us()]

    def judged(self, calls: Rows, runtimes_us: Float64Array, said: Verdicts) -> Verdicts:
        """Return verdicts of which those of calls that are abnormal on their path alone are replaced."""
        if not len(self._table):
            return said
        paths = calls["path"].astype(np.int64)
        at = ((paths < len(self._rows)) & ~said.is_anomaly).nonzero()[0]
        at = at[self._rows[paths[at]] != NONE]
        at = at[runtimes_us[at] >= self.edges_us[paths[at]]]
        if not len(at):
            return said
        rows = self._rows[paths[at]].astype(np.int64)
        self._update(distinct(rows))
        on_path = self._limits.judge(rows, runtimes_us[at])
        is_taken = on_path.is_anomaly & (runtimes_us[at] > on_path.expected_us)
        return said.replaced(at[is_taken], on_path, is_taken)

    def _add(self, timer: int, path: int, name: str) -> None:
        row = len(self._table)
        self._rows[path] = row
        self._table = np.concatenate([self._table, self._schema.empty(1)])
        self._timers = np.append(self._timers, timer)
        self._limits.reserve(row + 1)
        self._limits.name(row, name)

    def _update(self, rows: Int64Array) -> None:
        if len(rows):
            seen = self._table[rows, self._schema.slices["exclusive_us"].start]
            self._limits.update(rows, seen, self._table[rows])
            of_rows, has_row = self._row_edges_us(), self._rows != NONE
            self.edges_us[has_row] = of_rows[self._rows[has_row]]

    def _row_edges_us(self) -> Float64Array:
        return self._limits.ordinary_edges_us(np.arange(len(self._table)))[:, -1]
