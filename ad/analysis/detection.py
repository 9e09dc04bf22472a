"""Choosing the calls of a step to record: the abnormal ones, and ordinary ones to compare them with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.streamstatistics import StreamStatistics, Timers
from chimbuko.ad.calls.selection import NO_ROWS, Selection
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.calls.usual import UsualRuntimes
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.ad.kernels import label
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Float64Array, Int32Array, Rows
from chimbuko.core.calls.record import severity_us
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames


class Detection:
    """Learns from the calls of one stream and judges them, step by step.

    Learn, then label: the calls of a step enter the stream's own statistics, and are then judged by
    these together with what all streams had merged before.
    """

    def __init__(self, config: AnalysisConfig) -> None:
        self.usual = UsualRuntimes(config.metric == "inclusive")
        """What comparable calls take: those before, and those of the step."""
        self._detector = make_detector(config)
        self.schema = self._detector.schema
        self._use_inclusive = config.metric == "inclusive"
        self.statistics = StreamStatistics(self.schema, self._use_inclusive, config.is_frozen)
        self.limits = FunctionLimits(self._detector, config)
        self._named = 0
        self._is_wanted = np.zeros(0, np.uint8)
        self._flagged = np.empty(0, np.int32)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_flagged": self._flagged[:0]}

    def step(
        self, stacks: CallStacks, names: StreamNames, landmarks: Int32Array = NO_ROWS
    ) -> tuple[int, Selection]:
        """Learn from and judge the calls that ended in a step; returns how many, and those to record.

        The calls have their paths, and what is usual on these is known. ``landmarks`` are rows of calls to
        record although they are ordinary.
        """
        self._note_names(stacks.timers, names)
        completed, timers = self.statistics.learn(stacks)
        seen = self.statistics.seen(timers)
        is_due = self.limits.due(timers, seen, self.statistics.extremes[timers])
        due = timers[is_due]
        if len(due):
            self.limits.update(due, seen[is_due], self.statistics.known(due))
        return completed, self._select(stacks, timers, landmarks)

    def _select(self, stacks: CallStacks, timers: Timers, landmarks: Int32Array) -> Selection:
        """Abnormal calls, the most typical of each function that has none beside them yet, and landmarks."""
        limits = self.limits
        looked_at = self._is_wanted.copy()
        looked_at[timers[limits.may_be_exceeded(timers, self.statistics.extremes[timers])]] = 1
        if len(self._flagged) < stacks.count:
            self._flagged = np.empty(len(stacks.calls), np.int32)
        typical = np.empty(len(looked_at), np.int32)
        found = label.choose(
            stacks.calls,
            stacks.count,
            looked_at,
            self._use_inclusive,
            limits.edges_us,
            limits.expected_us,
            self._flagged,
            typical,
        )
        abnormal = self._flagged[:found]
        self._is_wanted[stacks.calls["function"][abnormal]] = 1
        ordinary = typical[(self._is_wanted != 0) & (typical != NONE)]
        self._is_wanted[typical != NONE] = 0
        rows = np.concatenate([abnormal, ordinary, _without(landmarks, abnormal, ordinary)])
        order = np.argsort(rows)
        return self._judged(stacks, rows[order], order < found)

    def _judged(
        self, stacks: CallStacks, rows: npt.NDArray[np.int32], is_anomaly: npt.NDArray[np.bool_]
    ) -> Selection:
        if not len(rows):
            return Selection(rows, is_anomaly, *[np.empty(0) for _ in range(5)])
        calls = stacks.calls[rows]
        of = calls["function"].astype(np.int64)
        runtimes_us = self._runtimes_us(calls)
        judged = self._detector.judge(self.limits.measures[of], runtimes_us)
        expected_us = self.usual.expected_us(calls, judged.expected_us)
        lost_us = severity_us(runtimes_us, expected_us)
        self.statistics.note_anomalies(of[is_anomaly], lost_us[is_anomaly], judged.score[is_anomaly])
        columns = judged.score, lost_us, expected_us, judged.spread_us, judged.seen
        # A kernel that meets an array that is not contiguous is compiled once more, in mid-stream.
        return Selection(rows, is_anomaly, *map(np.ascontiguousarray, columns))

    def _runtimes_us(self, calls: Rows) -> Float64Array:
        inclusive_us = calls["exit"] - calls["entry"]
        judged_us = inclusive_us if self._use_inclusive else inclusive_us - calls["child_us"]
        return np.asarray(judged_us, np.float64)

    def _note_names(self, timers: int, names: StreamNames) -> None:
        self.limits.reserve(timers)
        if len(self._is_wanted) < len(self.limits.is_judged):
            self._is_wanted = np.concatenate(
                [self._is_wanted, np.zeros(len(self.limits.is_judged) - len(self._is_wanted), np.uint8)]
            )
        if len(names.timers) != self._named:
            self._named = len(names.timers)
            for timer, name in names.timers.items():
                if timer < timers:
                    self.limits.name(timer, name)


def _without(rows: Int32Array, *others: Int32Array) -> Int32Array:
    """Those that are in none of the others; whole arrays take ten times as long for the few that they are."""
    if not len(rows):
        return rows
    known = {row for other in others for row in other.tolist()}
    return np.array([row for row in rows.tolist() if row not in known], np.int32)
