"""How fast one rank is in the functions that take its time, window by window."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.analysis.statistics import Learned
from chimbuko.core.arrays import Float64Array, Rows, grown
from chimbuko.core.statistics.schema import TableSchema
from chimbuko.core.traceschema import MPI_PREFIX, StreamNames
from chimbuko.runtime.protocol.telemetry import PACE, PERIODS_PER_WINDOW

LEAST_SHARE = 0.01
"""Of the rank's time: other functions cannot make it slow."""
MOST_FUNCTIONS = 16
"""Of a window, those that take the most time: 64 B/s for each rank on the way to the server."""
WAITS = MPI_PREFIX, "MPI Collective Sync"
"""Beginnings of names of functions in which a rank waits for others: the slow one least of all."""
MOST_ROWS = 64
"""Windows that nobody takes are forgotten, the oldest first."""


class RankSpeeds:
    """Adds up what is learned in windows of trace time, which are the same for all ranks.

    Parameters
    ----------
    schema
        The detector's table.
    has_severity
        The severity of abnormal calls is that of the exclusive runtime.
    period_us
        Trace period.
    """

    def __init__(
        self, program: int, rank: int, schema: TableSchema, has_severity: bool, period_us: int
    ) -> None:
        self._stream = program, rank
        self._exclusive_at = schema.slices["exclusive_us"].start
        self._severity_at = schema.slices["severity_us"].start if has_severity else None
        self._window_us = PERIODS_PER_WINDOW * period_us
        self._window = -1
        self._sums: Float64Array = np.zeros((0, 2))
        """f8[timers, 2]: calls and exclusive time in the window."""
        self._ended = np.zeros(0, PACE)

    def add(self, learned: Learned, end_us: int, names: StreamNames) -> None:
        """Add what was learned in steps of which the last ended at ``end_us``."""
        window = end_us // self._window_us
        if window > self._window:
            self.end_window(names)
            self._window = window
        if not len(learned.timers):
            return
        self._sums = grown(self._sums, int(learned.timers[-1]) + 1)
        calls = learned.table[:, self._exclusive_at]
        time_us = calls * learned.table[:, self._exclusive_at + 1]
        if self._severity_at is not None:
            time_us = time_us - learned.table[:, self._severity_at]
        self._sums[learned.timers, 0] += calls
        self._sums[learned.timers, 1] += time_us

    def end_window(self, names: StreamNames) -> None:
        """The window is over, also where it is the last and not a whole one."""
        calls, time_us = self._sums.T
        timers = np.flatnonzero(time_us > LEAST_SHARE * time_us.sum())
        timers = timers[np.argsort(-time_us[timers])]
        computing = [timer for timer in timers.tolist() if not names.timer_name(timer).startswith(WAITS)]
        rows = np.empty(len(computing[:MOST_FUNCTIONS]), PACE)
        rows["program"], rows["rank"] = self._stream
        rows["window"] = self._window
        rows["function"] = computing[:MOST_FUNCTIONS]
        rows["calls"], rows["time_us"] = calls[rows["function"]], time_us[rows["function"]]
        self._ended = np.concatenate([self._ended, rows])[-MOST_ROWS:]
        self._sums[:] = 0.0

    def hand_out(self) -> Rows:
        """``PACE`` rows of the windows that have ended; functions are timer ids."""
        ended, self._ended = self._ended, self._ended[:0]
        return ended
