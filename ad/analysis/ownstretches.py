"""Stretches that a long call spends in its own code between two calls that it makes, judged like calls.

``main`` is called once, and no other call says what it usually takes. But its loop makes the same calls again
and again, and what lies between two of them is as comparable as a call.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.streamstatistics import StreamStatistics
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.detectors import Detector, Verdicts
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.ad.detectors.robust import Robust
from chimbuko.ad.kernels import label
from chimbuko.ad.kernels.recordtables import MAX_FRAMES
from chimbuko.ad.kernels.stack import CALL, FIRST, NONE
from chimbuko.core.arrays import BoolArray, Float64Array, Int64Array, Rows, UInt8Array, as_table, distinct
from chimbuko.core.calls.record import stretch_row
from chimbuko.core.calls.recordarrays import HEAD, MEMBER, NO_CALL, UNKNOWN_THREAD, PackedRecords
from chimbuko.core.config import FEW_CALLS, AnalysisConfig
from chimbuko.core.traceschema import StreamNames

LEAST_US = 20_000
"""Least length of a stretch that is recorded. A step without any teaches nothing, for what that costs."""
FEW_ROWS = 256
"""Number of calls up to which a step is learned from in any case, so that rare places are known: 0.2 ms."""
MOST_PLACES = 256
"""Most places of a stream that are known: 0.5 MB."""
MOST_RECORDED = 16
"""Most stretches of a step that are recorded, the longest."""


class StretchFacts(NamedTuple):
    """Facts that the records of a step have in common."""

    step: int
    interval_us: tuple[int, int]
    model_version: int


class Stretches(NamedTuple):
    """Abnormal stretches of a step."""

    lost_us: Float64Array
    score: Float64Array
    records: PackedRecords


_SAME = ("step", "row", "function", "depth")
"""Fields of a call that its row in a window has by the same names."""
NO_STRETCHES = Stretches(np.empty(0), np.empty(0), PackedRecords())


class _Found(NamedTuple):
    """Stretches between two calls of one long call, as parallel arrays."""

    callers: Int64Array
    """Rows of the long calls in the call table."""
    before: Int64Array
    """Functions of the calls before and after."""
    after: Int64Array
    begin_us: Int64Array
    end_us: Int64Array
    rows_before: Int64Array
    """Rows of the calls before and after in the call table; the former are -1 where they ended in an earlier
    step.
    """
    rows: Int64Array


class OwnStretches:
    """Judge of such stretches in one stream, by those at the same place: between calls of the same functions
    made by the same one, which has too few calls to be judged itself.
    """

    def __init__(self, detector: Detector, config: AnalysisConfig) -> None:
        # The others are there to be compared with their originals, which know no stretches.
        self._is_wanted = isinstance(detector, Robust) and not config.is_frozen
        self._limits = FunctionLimits(detector, config)
        self._schema = detector.schema
        self._table = self._schema.empty(0)
        self._rows: dict[tuple[int, int, int], int] = {}
        """Row in the table of each place: functions of caller, call before and call after."""
        self._last: dict[tuple[int, int], tuple[int, int]] = {}
        """Function and end of the last call of each long call, by the latter's step and row."""

    def read(
        self,
        stacks: CallStacks,
        spent_us: Int64Array,
        statistics: StreamStatistics,
        is_passed_over: UInt8Array,
        names: StreamNames,
        about: StretchFacts,
    ) -> Stretches:
        """Learn from the stretches that ended in a step, and return the abnormal ones.

        Parameters
        ----------
        spent_us
            Time that each carried call spent in its own code in the step, i8[carried].
        is_passed_over
            Whether the own time of each function contains calls that are not recorded, u1[timers].
        """
        last, self._last = self._last, {}
        if not self._is_wanted:
            return NO_STRETCHES
        callers = self._long_calls(stacks, spent_us, statistics, is_passed_over)
        found = self._stretches(stacks, callers, last) if len(callers) else None
        if found is None or not len(found.callers):
            return NO_STRETCHES
        known = len(self._rows)
        places = self._places(stacks, found, names)
        # The first of each place pays for loading, compiling, caching, as the first call of a function does.
        # Where one stands several times the last value counts; the last element is that of all without a row.
        firsts = np.empty(len(self._rows) + 1, np.int64)
        firsts[places[::-1]] = np.arange(len(places))[::-1]
        places[firsts[known:-1]] = NONE
        self._learn(places, found)
        length_us = (found.end_us - found.begin_us).astype(np.float64)
        at = ((length_us >= LEAST_US) & (places != NONE)).nonzero()[0]
        if not len(at):
            return NO_STRETCHES
        said = self._judge(places[at], length_us[at])
        worst = np.argsort(-said.lost_us, kind="stable")
        worst = np.sort(worst[said.is_anomaly[worst]][:MOST_RECORDED])
        if not len(worst):
            return NO_STRETCHES
        return _recorded(stacks, found, at[worst], said.only(worst), about, names)

    def _long_calls(
        self,
        stacks: CallStacks,
        spent_us: Int64Array,
        statistics: StreamStatistics,
        is_passed_over: UInt8Array,
    ) -> Int64Array:
        """Return rows of the calls to look at, which were open before the step, or are at its end."""
        calls = stacks.calls
        is_long = np.ones(stacks.carried, np.bool_)
        if stacks.count > FEW_ROWS:
            is_long &= spent_us >= LEAST_US
        tops = stacks.threads["top"][: stacks.thread_count].tolist()
        begun = [row for top in tops for row in _callers(calls, top) if row >= stacks.carried]
        rows = np.array([*is_long.nonzero()[0].tolist(), *begun], np.int64)
        rows = rows[_are_sure(calls["doubts"][rows])]
        if not len(rows):
            return rows
        timers = calls["function"][rows].astype(np.int64)
        is_known = timers < len(is_passed_over)
        is_whole = ~is_known
        is_whole[is_known] = is_passed_over[timers[is_known]] == 0
        rows = rows[is_whole & (statistics.seen(timers) < FEW_CALLS)]
        return rows

    def _stretches(
        self, stacks: CallStacks, callers: Int64Array, last: dict[tuple[int, int], tuple[int, int]]
    ) -> _Found | None:
        """Return what lies between the calls that these have made, and note the last of these; None if there
        is nothing to learn or to judge.
        """
        calls, count = stacks.calls, stacks.count
        # The last one is that of calls without a caller.
        is_caller = np.zeros(count + 1, np.bool_)
        is_caller[callers] = True
        parents = calls["parent"][:count]
        rows = is_caller[parents].nonzero()[0]
        rows = rows[np.argsort(parents[rows], kind="stable")]
        of = parents[rows].astype(np.int64)
        begin_us, end_us = (calls[name][rows].astype(np.int64) for name in ("entry", "exit"))
        rows_before, from_us = np.append(NONE, rows[:-1]), np.append(0, end_us[:-1])
        firsts = np.append(True, of[1:] != of[:-1])[: len(rows)].nonzero()[0]
        from_us[firsts], rows_before[firsts] = 0, NONE
        before_step = {}
        for first, end in pairwise([*firsts.tolist(), len(rows)]):
            call, child = calls[of[first]], calls[rows[end - 1]]
            key = int(call["step"]), int(call["row"])
            if key in last and rows[first] >= stacks.carried:
                before_step[first], from_us[first] = last[key]
            if child["exit"] and _are_sure(child["doubts"]):
                self._last[key] = int(child["function"]), int(child["exit"])
        is_found = (from_us > 0) & (begin_us >= from_us)
        if count > FEW_ROWS and not (begin_us - from_us >= LEAST_US)[is_found].any():
            return None
        function = calls["function"][rows].astype(np.int64)
        before = function[np.arange(-1, len(rows) - 1)]
        is_sure = _are_sure(calls["doubts"][rows])
        is_found &= is_sure & (is_sure[np.arange(-1, len(rows) - 1)] | (rows_before == NONE))
        for first, said in before_step.items():
            before[first] = said
        columns = of, before, function, from_us, begin_us, rows_before, rows
        return _Found(*(column[is_found] for column in columns))

    def _places(self, stacks: CallStacks, found: _Found, names: StreamNames) -> Int64Array:
        """Return the row in the table of each stretch, or -1 where there is no room for its place."""
        timers = stacks.timers
        callers = stacks.calls["function"][found.callers].astype(np.int64)
        keys = (callers * timers + found.before) * timers + found.after
        known = distinct(keys)
        rows = []
        for key in known.tolist():
            caller, before, after = key // timers**2, key // timers % timers, key % timers
            row = self._rows.get((caller, before, after), NONE)
            if row == NONE and len(self._rows) < MOST_PLACES and caller in names.timers:
                row = self._rows[caller, before, after] = len(self._rows)
                self._limits.reserve(row + 1)
                self._limits.name(row, names.timers[caller])
            rows.append(row)
        self._table = self._schema.grown(self._table, len(self._rows))
        return np.array(rows, np.int64)[np.searchsorted(known, keys)]

    def _learn(self, places: Int64Array, found: _Found) -> None:
        is_known = places != NONE
        calls = np.zeros(int(is_known.sum()), CALL)
        calls["function"] = places[is_known]
        calls["entry"], calls["exit"] = found.begin_us[is_known], found.end_us[is_known]
        rows = np.arange(len(self._table), dtype=np.int32)
        is_named = np.ones(len(self._table), np.uint8)
        buckets_at = self._schema.slices["buckets"].start
        label.learn_apart(as_table(calls), len(calls), is_named, rows, False, True, buckets_at, self._table)

    def _judge(self, places: Int64Array, length_us: Float64Array) -> Verdicts:
        rows = distinct(places)
        self._limits.update(rows, self._table[rows, 0], self._table[rows])
        return self._limits.judge(places, length_us)


def _are_sure(doubts: npt.NDArray[np.uint8]) -> BoolArray:
    """Return whether nothing speaks against these calls, but that they may be the first of their function."""
    sure: BoolArray = (doubts & ~np.uint8(FIRST)) == 0
    return sure


def _recorded(
    stacks: CallStacks,
    found: _Found,
    at: Int64Array,
    said: Verdicts,
    about: StretchFacts,
    names: StreamNames,
) -> Stretches:
    """Return the stretches ``at`` these indices, of which so much was said."""
    calls = stacks.calls
    heads, frames, members = np.zeros(len(at), HEAD), [], []
    for one, (caller, next_row) in enumerate(
        zip(found.callers[at].tolist(), found.rows[at].tolist(), strict=True)
    ):
        long, following, head = calls[caller], calls[next_row], heads[one]
        own = np.zeros(1, MEMBER)
        own["entry_us"], own["exit_us"] = found.begin_us[at[one]], found.end_us[at[one]]
        own["step"], own["row"] = following["step"], stretch_row(int(following["row"]))
        own["function"], own["depth"], own["is_anomaly"] = long["function"], long["depth"], True
        around = _members(calls, _callers(calls, int(long["parent"])))
        own["parent_step"], own["parent_row"] = (
            (around["step"][0], around["row"][0]) if len(around) else (NO_CALL, NO_CALL)
        )
        beside = [row for row in (int(found.rows_before[at[one]]), next_row) if row != NONE]
        window = _members(calls, beside)
        frames += [own, around]
        members += [*([window[:-1]] if len(window) > 1 else []), own, window[-1:]]
        head["frames"], head["members"] = 1 + len(around), 1 + len(window)
        for name in ("entry_us", "exit_us", "function", "depth"):
            head[name] = own[name][0]
        head["children"] = long["children"]
        head["begin_step"], head["begin_row"] = own["step"][0], own["row"][0]
        head["thread"] = stacks.threads["id"][long["thread"]]
    heads["inclusive_us"] = heads["exclusive_us"] = heads["exit_us"] - heads["entry_us"]
    heads["step"], (heads["step_start_us"], heads["step_end_us"]) = about.step, about.interval_us
    heads["score"], heads["severity_us"] = said.score, said.lost_us
    heads["expected_us"], heads["spread_us"], heads["seen"] = said.expected_us, said.spread_us, said.seen
    heads["model_version"] = about.model_version
    heads["launch_step"] = heads["launch_row"] = NO_CALL
    heads["launch_thread"] = UNKNOWN_THREAD
    heads["revision"] = heads["is_final"] = heads["is_anomaly"] = 1
    stacked, windows = np.concatenate(frames), np.concatenate(members)
    timers = distinct(np.concatenate([stacked["function"], windows["function"]])).tolist()
    records = PackedRecords(
        heads=heads.tobytes(),
        frames=stacked.tobytes(),
        members=windows.tobytes(),
        functions={timer: names.timer_name(timer) for timer in timers},
    )
    return Stretches(said.lost_us, said.score, records)


def _callers(calls: Rows, row: int) -> list[int]:
    rows: list[int] = []
    while row != NONE and len(rows) < MAX_FRAMES:
        rows.append(row)
        row = int(calls["parent"][row])
    return rows


def _members(calls: Rows, rows: list[int]) -> Rows:
    """Return ``MEMBER`` rows of calls."""
    chosen = calls[np.array(rows, np.int64)]
    members = np.zeros(len(rows), MEMBER)
    for to, name in (("entry_us", "entry"), ("exit_us", "exit"), *((name, name) for name in _SAME)):
        members[to] = chosen[name]
    members["parent_step"] = members["parent_row"] = NO_CALL
    has_parent = chosen["parent"] != NONE
    parents = calls[chosen["parent"][has_parent]]
    members["parent_step"][has_parent], members["parent_row"][has_parent] = parents["step"], parents["row"]
    return members
