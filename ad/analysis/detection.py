"""Selection of the calls of a step to record: the abnormal ones, and ordinary ones to compare them with."""

from __future__ import annotations

from functools import partial
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.ownstretches import OwnStretches, Stretches, StretchFacts
from chimbuko.ad.analysis.placedcalls import MUCH, placed
from chimbuko.ad.analysis.streamstatistics import StreamStatistics, Timers
from chimbuko.ad.calls.callpaths import CallPaths, UsualRuntimes
from chimbuko.ad.calls.selection import NO_ROWS, Selection
from chimbuko.ad.calls.stacks import MAIN_THREAD, CallStacks
from chimbuko.ad.detectors import Detector, Verdicts, make_detector
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.ad.detectors.robust import FEW_LEAST_US, FEW_TIMES, Robust
from chimbuko.ad.kernels import label
from chimbuko.ad.kernels.leftout import add_to_callers
from chimbuko.ad.kernels.stack import NONE, PARTLY
from chimbuko.core.arrays import BoolArray, Float64Array, Int32Array, Int64Array, Rows, distinct, grown
from chimbuko.core.calls.record import CLEARLY
from chimbuko.core.config import LEAST_CALLS, AnalysisConfig
from chimbuko.core.traceschema import LEFT_OUT_AT_TIMES, RECORDED_AGAIN, StreamNames

SETTLED_CALLS = 64
"""Number of calls from which the usual runtime of a path is known well enough to compare paths: to a fifth
of the spread of its calls.
"""
MOST_ROWS = 256
"""Maximum number of paths of a stream that are judged by themselves: 0.5 MB."""


class PathLimits:
    """Ordinary runtimes on call paths on which calls of a function are clearly shorter than on others.

    Each level of a multigrid cycle has a call path of its own, and takes an eighth of the time of the level
    above: by the runtimes of the function as a whole only what is beyond the longest level would be abnormal.
    """

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


_NONE = np.empty(0, np.int64)
MAY_BE_LONG_US = 10_000.0
"""Runtime from which a call of a function with few calls is recorded, if it takes ``FEW_TIMES`` as long as
usual: HPCG's delays were missed in a function that has 30 calls at the time and 70 in the end.
"""


PLACED_OF_TIME = 0.01
"""Least share of the time of a stream that a function takes whose long calls are looked at: a finding is as
much.
"""


class LeftOutCallees:
    """Functions that are left out at times: their time always counts as their callers' own.

    So a caller's own time means the same while they are recorded and while they are not. It means something
    else than before when one of them begins to be left out, which each does twice at most, or no longer is.
    """

    def __init__(self) -> None:
        self._said = self._said_again = 0
        """Number of entries of the stream's metadata that were read, of either kind."""
        self.is_left_out = np.zeros(0, np.uint8)
        """Whether each function is left out at times, uint8[timers]."""
        self.is_caller = np.zeros(0, np.uint8)
        """Whether each function calls one that is left out at times, uint8[timers]."""

    def read(self, stacks: CallStacks, names: StreamNames, paths: CallPaths) -> Int64Array:
        """Give the calls of the step whose ``stacks`` were built the time of such callees; return the timers
        whose own time means something else than before this step, ascending.

        ``paths`` are those of the steps before.
        """
        again, self._said_again = _timers_said(stacks, names, RECORDED_AGAIN, self._said_again)
        new, self._said = _timers_said(stacks, names, LEFT_OUT_AT_TIMES, self._said)
        if not self._said:
            return _NONE
        self.is_left_out = grown(self.is_left_out, stacks.timers)
        self.is_caller = grown(self.is_caller, stacks.timers)
        no_longer = self._end(again, paths)
        self.is_left_out[new] = 1
        was_caller = self.is_caller.copy()
        begins = np.zeros(len(self.is_left_out), np.bool_)
        begins[new] = True
        changed = paths.callers(begins, self.is_left_out)
        if add_to_callers(stacks.calls, stacks.count, self.is_left_out, self.is_caller):
            found = self.is_caller > was_caller
            changed |= found | paths.callers(found & (self.is_left_out != 0), self.is_left_out)
        self.is_caller |= changed
        changed |= no_longer
        open_before = stacks.calls[: stacks.carried]
        open_before["doubts"][changed[open_before["function"]]] |= PARTLY
        return changed.nonzero()[0]

    def _end(self, timers: Int64Array, paths: CallPaths) -> BoolArray:
        """Note that these functions are no longer left out; return which functions had their time."""
        ends = np.zeros(len(self.is_left_out), np.bool_)
        ends[timers] = self.is_left_out[timers] != 0
        had = paths.callers(ends, self.is_left_out)
        self.is_left_out[ends] = 0
        self.is_caller[had] = paths.callers(self.is_left_out != 0, self.is_left_out)[had]
        return had

    def are_left_out(self, calls: Rows) -> BoolArray:
        """Return whether the function of each call is left out at times, bool[calls]."""
        if not self._said:
            return np.zeros(len(calls), np.bool_)
        found: BoolArray = self.is_left_out[calls["function"]] != 0
        return found

    def excuse_callers(self, stacks: CallStacks, row: int, lost_us: float) -> list[int]:
        """Take the time that an abnormal call of a function that is left out at times has lost from its
        callers, whose own it counts as; return the rows of these.
        """
        calls, excused = stacks.calls, []
        caller = int(calls["parent"][row])
        while caller >= 0:
            calls["at_times_us"][caller] = max(calls["at_times_us"][caller] - lost_us, 0.0)
            excused.append(caller)
            is_passed_on = calls["exit"][caller] and self.is_left_out[calls["function"][caller]]
            caller = int(calls["parent"][caller]) if is_passed_on else -1
        return excused


class Detection:
    """Detection in one stream: learns from its calls and judges them, step by step.

    Learn, then label: the calls of a step enter the stream's own statistics, and are then judged by
    these together with what all streams had merged before.
    """

    def __init__(self, config: AnalysisConfig) -> None:
        self.usual = UsualRuntimes(config.metric == "inclusive")
        """Usual runtimes of comparable calls: those before, and those of the step."""
        detector = make_detector(config)
        self.schema = detector.schema
        self._use_inclusive = config.metric == "inclusive"
        self.statistics = StreamStatistics(self.schema, self._use_inclusive, config.is_frozen)
        self.limits = FunctionLimits(detector, config)
        self._on_paths = PathLimits(detector, config)
        self._own_stretches = OwnStretches(detector, config)
        self.left_out = LeftOutCallees()
        self._named = 0
        self._is_wanted = np.zeros(0, np.uint8)
        self._flagged = np.empty(0, np.int32)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_flagged": self._flagged[:0]}

    def read_left_out(self, stacks: CallStacks, names: StreamNames, paths: CallPaths) -> None:
        """Note which functions are left out at times, and judge callers whose own time means something else
        since then by the calls that come from now on; ``paths`` are those of the steps before.
        """
        # The inclusive runtime is the same with callees and without them.
        if self._use_inclusive:
            return
        timers = self.left_out.read(stacks, names, paths)
        if len(timers):
            self.limits.reserve(stacks.timers)
            self.limits.forget(timers)
            self.statistics.begin_apart(timers)
            changed = paths.of_functions(timers)
            self.usual.forget(changed)
            self._on_paths.forget(changed)

    def step(
        self, stacks: CallStacks, names: StreamNames, paths: CallPaths, landmarks: Int32Array = NO_ROWS
    ) -> tuple[int, Selection]:
        """Learn from and judge the calls that ended in a step; return their number, and those to record.

        The calls have their paths, and what is usual on these is known. ``landmarks`` are rows of calls to
        record although they are ordinary.
        """
        self._note_names(stacks.timers, names)
        self._on_paths.find(paths, self.usual, names)
        completed, timers = self.statistics.learn(stacks)
        self._on_paths.learn(stacks)
        seen = self.statistics.seen(timers)
        is_due = self.limits.due(timers, seen, self.statistics.extremes[timers])
        due = timers[is_due]
        if len(due):
            self.limits.update(due, seen[is_due], self.statistics.known(due))
        self._note_placed(stacks, timers[seen >= LEAST_CALLS])
        may_be_long = self._longest_of_few(stacks, timers[seen < LEAST_CALLS])
        marks = np.concatenate([landmarks, _without(may_be_long, landmarks)])
        return completed, self._select(stacks, timers, marks)

    def stretches(
        self, stacks: CallStacks, spent_us: Int64Array, names: StreamNames, about: StretchFacts
    ) -> Stretches:
        """Return the abnormal stretches of a step, as ``OwnStretches.read`` finds them.

        They are no calls, and so not in the statistics of functions.
        """
        is_passed_over = self.left_out.is_caller
        return self._own_stretches.read(stacks, spent_us, self.statistics, is_passed_over, names, about)

    def _note_placed(self, stacks: CallStacks, timers: Timers) -> None:
        """Note of the functions that take most time whether their long calls have a place of their own."""
        if "placed" not in self.schema.slices:
            return
        time_us = self.statistics.time_us(timers)
        is_looked_at = time_us >= PLACED_OF_TIME * time_us.sum()
        is_looked_at &= self.statistics.extremes[timers, 1] >= MUCH * self.limits.expected_us[timers]
        calls = stacks.calls[: stacks.count]
        for timer in timers[is_looked_at].tolist():
            of_function = calls[calls["function"] == timer]
            is_judged = (of_function["exit"] != 0) & (of_function["doubts"] == 0)
            runtimes_us = np.where(is_judged, self._runtimes_us(of_function), -1.0)
            self.statistics.note_placed(timer, *placed(of_function, runtimes_us, stacks.carried))

    def _longest_of_few(self, stacks: CallStacks, timers: Timers) -> Int32Array:
        """Return calls that later ones, or those of other ranks, may show to be abnormal: of functions with
        too few calls to judge yet, those that are the longest so far or unusually long.
        """
        longest_us = self.statistics.extremes[timers, 1]
        timers = timers[(longest_us >= MAY_BE_LONG_US) & (self.limits.is_judged[timers] != 0)]
        if not len(timers):
            return NO_ROWS
        judged = self.schema.slices["inclusive_us" if self._use_inclusive else "exclusive_us"]
        longest_us = self.statistics.extremes[timers, 1]
        most_us = self.statistics.known(timers)[:, judged.stop - 1]
        is_longest = longest_us >= np.maximum(most_us, FEW_LEAST_US)
        unusual_us = np.maximum(FEW_TIMES * self.limits.expected_us[timers], MAY_BE_LONG_US)
        from_us = np.where(is_longest, np.minimum(longest_us, unusual_us), unusual_us)
        is_long = longest_us >= from_us
        calls = stacks.calls[: stacks.count]
        runtimes_us = np.where((calls["exit"] != 0) & (calls["doubts"] == 0), self._runtimes_us(calls), -1.0)
        found = [
            np.flatnonzero((calls["function"] == timer) & (runtimes_us >= us))
            for timer, us in zip(timers[is_long].tolist(), from_us[is_long], strict=True)
        ]
        return np.concatenate([NO_ROWS, *found]).astype(np.int32)

    def _select(self, stacks: CallStacks, timers: Timers, landmarks: Int32Array) -> Selection:
        """Return abnormal calls, the most typical call of each function that has no ordinary one beside them
        yet, and landmarks.
        """
        limits = self.limits
        looked_at = self._is_wanted.copy()
        looked_at[timers[limits.may_be_exceeded(timers, self.statistics.extremes[timers])]] = 1
        looked_at[self._on_paths.functions(self.statistics.extremes[:, 1])] = 1
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
            self._on_paths.edges_us,
            self._flagged,
            typical,
        )
        abnormal = self._flagged[:found]
        if found:
            abnormal = self._abnormal(stacks, abnormal)
        self._is_wanted[stacks.calls["function"][abnormal]] = 1
        ordinary = typical[(self._is_wanted != 0) & (typical != NONE)]
        self._is_wanted[typical != NONE] = 0
        rows = np.concatenate([abnormal, ordinary, _without(landmarks, abnormal, ordinary)])
        return self._judged(stacks, np.sort(rows))

    def _abnormal(self, stacks: CallStacks, rows: Int32Array) -> Int32Array:
        """Return those of the rows, ascending, whose calls are abnormal: a caller is not by the time that a
        callee has lost which counts as the caller's own.
        """
        said = self._verdicts(stacks.calls[rows])
        rows, lost_us = rows[said.is_anomaly], said.lost_us[said.is_anomaly]
        callees = self.left_out.are_left_out(stacks.calls[rows]).nonzero()[0][::-1]
        excused: set[int] = set()
        for row, its_us in zip(rows[callees].tolist(), lost_us[callees].tolist(), strict=True):
            if row in excused:
                said = self._verdicts(stacks.calls[row : row + 1])
                its_us = float(said.lost_us[0]) if said.is_anomaly[0] else 0.0
            if its_us:
                excused.update(self.left_out.excuse_callers(stacks, row, its_us))
        return rows[self._verdicts(stacks.calls[rows]).is_anomaly] if excused else rows

    def _judged(self, stacks: CallStacks, rows: npt.NDArray[np.int32]) -> Selection:
        if not len(rows):
            return Selection.none()
        calls = stacks.calls[rows]
        said = self._verdicts(calls)
        of = calls["function"].astype(np.int64)[said.is_anomaly]
        self.statistics.note_anomalies(of, said.lost_us[said.is_anomaly], said.score[said.is_anomaly])
        columns = said.score, said.lost_us, said.expected_us, said.spread_us, said.seen
        # A kernel that meets an array that is not contiguous is compiled once more, in mid-stream.
        score, lost_us, expected_us, spread_us, seen = map(np.ascontiguousarray, columns)
        return Selection(rows, said.is_anomaly, score, lost_us, expected_us, spread_us, seen)

    def _verdicts(self, calls: Rows) -> Verdicts:
        timers = calls["function"].astype(np.int64)
        runtimes_us = self._runtimes_us(calls)
        said = self.limits.judge(timers, runtimes_us, partial(self.usual.expected_us, calls))
        return self._on_paths.judged(calls, runtimes_us, said)

    def _runtimes_us(self, calls: Rows) -> Float64Array:
        inclusive_us = calls["exit"] - calls["entry"]
        if self._use_inclusive:
            return np.asarray(inclusive_us, np.float64)
        exclusive_us = (inclusive_us - calls["child_us"]).astype(np.float64)
        return np.asarray(exclusive_us + calls["at_times_us"], np.float64)

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


def _timers_said(stacks: CallStacks, names: StreamNames, key: str, said: int) -> tuple[Int64Array, int]:
    """Return timers, ascending, of the entries of a stream's metadata behind the first ``said`` ones, and the
    number of all entries.
    """
    new: set[int] = set()
    while text := names.metadata.get((stacks.rank, MAIN_THREAD, f"{key}{said}")):
        new |= {int(word) for word in text.split() if word.isdecimal()}
        said += 1
    return np.array(sorted(timer for timer in new if timer < stacks.timers), np.int64), said


def _without(rows: Int32Array, *others: Int32Array) -> Int32Array:
    """Return the rows that are in none of the others; numpy's set functions take ten times as long for the
    few that they are.
    """
    if not len(rows):
        return rows
    known = {row for other in others for row in other.tolist()}
    return np.array([row for row in rows.tolist() if row not in known], np.int32)
