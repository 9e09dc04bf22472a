"""Telemetry of one stream beside its statistics: messages to other ranks, pace of the rank, flagged steps.

``RankSpeeds`` says how fast a rank is in the functions that take its time, window by window; ``Traffic`` what
it sends to the others.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.kernels.channels import OTHERS_ROW, count_sends
from chimbuko.core.arrays import Float64Array, Rows, UInt8Array, grown
from chimbuko.core.statistics import flaggedsteps
from chimbuko.core.statistics.schema import TableSchema
from chimbuko.core.traceschema import MPI_PREFIX, EventType, StreamNames, TraceStep
from chimbuko.runtime.protocol.telemetry import OTHERS, PACE, PERIODS_PER_WINDOW, TRAFFIC

LEAST_SHARE = 0.01
"""Minimum share of the rank's time that a function takes to be reported: others cannot make the rank slow."""
NO_FUNCTIONS = np.empty(0, np.uint8)
MOST_FUNCTIONS = 16
"""Maximum number of functions reported for a window, those that take the most time: 64 B/s for each rank on
the way to the server.
"""
WAITS = MPI_PREFIX, "MPI Collective Sync"
"""Beginnings of names of functions in which a rank waits for others, as the slow rank does least of all."""
MOST_ROWS = 64
"""Maximum number of window rows kept until they are taken; the oldest are forgotten."""


class RankSpeeds:
    """Pace of a rank in windows of trace time, which are the same for all ranks.

    Parameters
    ----------
    schema
        Schema of the detector's table.
    has_severity
        Whether the severity of abnormal calls is that of the exclusive runtime.
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
        """Number of calls and exclusive time in the window, float64[timers, 2]."""
        self._ended = np.zeros(0, PACE)

    def add(
        self, learned: Learned, end_us: int, names: StreamNames, is_passed_over: UInt8Array = NO_FUNCTIONS
    ) -> None:
        """Add what was learned in steps of which the last ended at ``end_us``.

        Functions for which ``is_passed_over`` is set, uint8[timers], say nothing of the rank: their own time
        is another one than on others, as not all that they call is recorded.
        """
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
        self._sums[: len(is_passed_over)][is_passed_over[: len(self._sums)] != 0] = 0.0

    def end_window(self, names: StreamNames) -> None:
        """End the window, also where it is the last and not a whole one."""
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
        """Return ``PACE`` rows of the windows that have ended; functions are timer ids."""
        ended, self._ended = self._ended, self._ended[:0]
        return ended


MOST_RANKS = 1 << 20
MOST_DESTINATIONS = 4096
"""Maximum number of destinations until they are taken; messages to further ranks are added up."""


class Traffic:
    """Messages and bytes by destination, since they were last taken."""

    def __init__(self, program: int, rank: int) -> None:
        self._program = program
        self._rank = np.uint64(rank)
        # Memory that is 0 is not in use until it is written.
        self._places = np.zeros(MOST_RANKS, np.int32)
        self._destinations = np.zeros(MOST_DESTINATIONS, np.int32)
        self._destinations[OTHERS_ROW] = OTHERS
        self._totals = np.zeros((MOST_DESTINATIONS, 2), np.int64)
        self._count = 1
        self._reported = self._totals[:0].copy()
        self._generation = 0

    def __getstate__(self) -> dict[str, Any]:
        in_use = {"_destinations": self._destinations[: self._count], "_totals": self._totals[: self._count]}
        return self.__dict__ | in_use | {"_places": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        count = self._count
        self._places = np.zeros(MOST_RANKS, np.int32)
        self._destinations = np.zeros(MOST_DESTINATIONS, np.int32)
        self._totals = np.zeros((MOST_DESTINATIONS, 2), np.int64)
        self._destinations[:count], self._totals[:count] = state["_destinations"], state["_totals"]
        self._places[self._destinations[1:count]] = np.arange(1, count)

    def read(self, step: TraceStep, names: StreamNames) -> None:
        """Count what was sent in a step."""
        if len(step.comms):
            self._count = count_sends(
                step.comms,
                self._rank,
                np.uint64(names.event_type_id(EventType.SEND)),
                self._places,
                self._destinations,
                self._totals,
                self._count,
            )

    @property
    def most(self) -> int:
        """Maximum number of rows that are not taken."""
        return self._count

    def not_taken(self, generation: int) -> Rows:
        """Return ``TRAFFIC`` rows of all that was not taken yet, one for each destination.

        ``generation`` says whether what was reported the last time is still there, or was taken.
        """
        if generation != self._generation:
            self._generation = generation
            if self._reported[:, 0].any():
                self._forget_reported()
        self._reported = self._totals[: self._count].copy()
        first = 0 if self._reported[OTHERS_ROW, 0] else 1
        rows = np.empty(self._count - first, TRAFFIC)
        rows["program"], rows["rank"] = self._program, self._rank
        rows["destination"] = self._destinations[first : self._count]
        rows["messages"], rows["size_bytes"] = self._reported[first:].T
        return rows

    def _forget_reported(self) -> None:
        totals = self._totals[: self._count].copy()
        totals[: len(self._reported)] -= self._reported
        self._places[self._destinations[1 : self._count]] = OTHERS_ROW
        self._totals[: self._count] = 0
        kept = np.flatnonzero(totals[:, 0])
        kept = np.concatenate([[OTHERS_ROW], kept[kept != OTHERS_ROW]])
        self._count = len(kept)
        self._totals[: self._count] = totals[kept]
        self._destinations[: self._count] = self._destinations[kept]
        self._places[self._destinations[1 : self._count]] = np.arange(1, self._count)


class StreamTelemetry(msgspec.Struct, frozen=True):
    """Telemetry of one stream, as it is handed to the agent."""

    traffic: Rows
    """``TRAFFIC`` rows of messages that were not taken."""
    paces: Rows
    """``PACE`` rows of windows that have ended; functions are the stream's timer ids."""
    flagged_steps: Rows = msgspec.field(default_factory=lambda: flaggedsteps.empty(0))
    """``FLAGGED_STEPS`` rows that were not taken; functions are timer ids."""

    @classmethod
    def none(cls) -> StreamTelemetry:
        """Return empty telemetry."""
        return cls(np.empty(0, TRAFFIC), np.empty(0, PACE))

    def __bool__(self) -> bool:
        return bool(len(self.traffic) or len(self.paces) or len(self.flagged_steps))
