"""Call paths of one stream, their way from its process to its agent, and the usual runtimes of comparable
calls: those of the same function on the same path.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels.callpaths import FIRST, expect, follow_paths, note_looks
from chimbuko.core.arrays import BoolArray, Float64Array, Int64Array, Rows, UInt8Array, as_table
from chimbuko.core.calls.pathtable import MOST_PATHS, PATH_TIME, PathTable
from chimbuko.core.calls.record import CLEARLY
from chimbuko.core.calls.waiting import TimeKind, time_kind
from chimbuko.core.kernels.paths import NONE, OTHERS
from chimbuko.core.traceschema import StreamNames

USUAL = np.dtype([("level", np.float64), ("calls", np.int64)], align=True)
"""Logarithm of the usual runtime, as ``kernels.callpaths.level_of`` gives it, and the number of calls."""


class UsualRuntimes:
    """Usual runtimes of the calls of one stream, path by path; ``CallPaths.read`` updates them.

    Memory is 80 bytes a path, for as many paths as have a row of their own; all others have no usual runtime.
    """

    def __init__(self, use_inclusive: bool, most_paths: int = MOST_PATHS) -> None:
        self.use_inclusive = use_inclusive
        """Whether runtimes are inclusive."""
        # Memory that is 0 is not in use until it is written.
        self.rows = as_table(np.zeros(most_paths, USUAL))
        self.first = np.zeros((most_paths, FIRST))
        """Levels of the first calls of each path."""

    def __getstate__(self) -> dict[str, Any]:
        used = self.rows["calls"].nonzero()[0]
        return {
            "use_inclusive": self.use_inclusive,
            "most_paths": len(self.rows),
            "used": (used, self.rows[used], self.first[used]),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["use_inclusive"], state["most_paths"])  # type: ignore[misc]
        used, usual, first = state["used"]
        self.rows[used], self.first[used] = usual, first

    def forget(self, paths: Int64Array) -> None:
        """Forget what was usual on these paths, given by their rows: it is learned anew."""
        self.rows["calls"][paths[paths < len(self.rows)]] = 0

    def expected_us(self, calls: Rows, of_function_us: Float64Array) -> Float64Array:
        """Return the expected runtime of each call in µs, float64[n].

        Parameters
        ----------
        calls
            ``CALL`` rows.
        of_function_us
            Expected runtimes of the calls' functions, float64[n]. They count where too few calls on the path
            are known, or their runtimes do not clearly differ.
        """
        expected_us = np.array(of_function_us)
        expect(calls, self.rows, CLEARLY, expected_us)
        return expected_us


MOST_DEPTH = 64
"""Maximum depth of a call path: deeper calls have none, as a recursion would have one for each level."""
LOOK = np.dtype(
    [
        ("time_us", np.uint64),
        ("length_us", np.uint32),  # time since the look before, for which this one stands
        ("thread", np.int32),  # TAU's id
        ("is_asleep", np.uint8),
    ],
    align=True,
)
"""One look at a thread: whether it was asleep at that moment."""
MOST_TIMES = 256
"""Maximum number of paths of a rank whose runtimes are stored: 3 kB."""


class CallPaths:
    """Calls of one stream, added up by call path.

    Parameters
    ----------
    most_paths, most_depth
        Calls on further paths, or deeper ones, are added up together.
    """

    def __init__(self, most_paths: int = MOST_PATHS, most_depth: int = MOST_DEPTH) -> None:
        self._table = PathTable(most_paths)
        self._most_depth = most_depth
        self._handed_out = self._table.all[:0]
        self._times = np.zeros(1, PATH_TIME)
        """``PATH_TIME`` rows of what was handed out."""
        self._kinds: Int64Array = np.zeros(1, np.int64)
        """``TimeKind`` of each path."""
        self._told_us = [0.0] * len(TimeKind)
        """Time by kind, of what is not handed out yet, up to the step before."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_handed_out": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_handed_out": state["_table"].all[:0]})

    def read(self, stacks: CallStacks, usual: UsualRuntimes) -> None:
        """Add the calls of the step whose ``stacks`` were built; ended ones add to what is ``usual``."""
        table = self._table
        follow_paths(
            stacks.calls,
            stacks.carried,
            stacks.count,
            stacks.is_named,
            self._most_depth,
            table.all,
            table.slots,
            table.count,
            usual.use_inclusive,
            usual.rows,
            usual.first,
            stacks.threads,
            stacks.thread_count,
        )

    def read_looks(self, stacks: CallStacks, looks: Rows) -> None:
        """Add looks at threads, ``LOOK`` rows by time, to the paths that these were on in the step; ``read``
        comes first.
        """
        note_looks(
            stacks.calls, stacks.count, as_table(looks), stacks.numbers_of(looks["thread"]), self._table.all
        )

    def spent_us(self, names: StreamNames) -> list[int]:
        """Return the time of each ``TimeKind`` in the step that was read last, in µs; call it once a step."""
        rows, kinds = self._table.rows, self._kinds
        if len(kinds) < len(rows):
            new = rows["function"][len(kinds) :].tolist()
            self._kinds = kinds = np.append(kinds, [time_kind(names.timer_name(timer)) for timer in new])
        before_us, self._told_us = self._told_us, np.bincount(kinds, rows["spent_us"], len(TimeKind)).tolist()
        return [max(0, int(now - before)) for now, before in zip(self._told_us, before_us, strict=True)]

    def callers(self, called: BoolArray, is_passed_on: UInt8Array) -> BoolArray:
        """Return which functions call any of these, bool[timers]; where ``is_passed_on`` is set for a caller,
        uint8[timers], also which call that one.
        """
        rows = self._table.rows
        rows = rows[(rows["parent"] > OTHERS) & (rows["function"] < len(called))]
        callees, callers = rows["function"], self._table.rows["function"][rows["parent"]]
        found = np.zeros(len(called), np.bool_)
        while called.any():
            fresh = np.zeros(len(called), np.bool_)
            fresh[callers[called[callees]]] = True
            fresh &= ~found
            found |= fresh
            called = fresh & (is_passed_on != 0)
        return found

    def of_functions(self, timers: Int64Array) -> Int64Array:
        """Return the rows of the paths that end in one of these functions."""
        return np.isin(self._table.rows["function"], timers).nonzero()[0]

    @property
    def functions(self) -> Rows:
        """Functions of the paths, by timer id."""
        return self._table.rows["function"]

    @property
    def count(self) -> int:
        """Number of paths."""
        return len(self._table.rows)

    def times(self) -> Rows:
        """Return ``PATH_TIME`` rows of all paths with all calls since the stream began; functions are timer
        ids.
        """
        rows = self._table.rows
        times = np.zeros(len(rows), PATH_TIME)
        times[: len(self._times)] = self._times
        times["parent"], times["function"] = rows["parent"], rows["function"]
        times["calls"] += rows["begun"]
        times["exclusive_us"] += rows["spent_us"]
        return times

    def hand_out(self) -> Rows:
        """Return ``PATH`` rows of all paths, with the calls since the last call; functions are timer ids.

        The rows are valid until the next call.
        """
        rows = self._table.rows
        # Memory is used again: 4,096 paths are 430 kB, of which fresh pages would take most of the time.
        if len(self._handed_out) < len(rows):
            self._handed_out = self._table.all.copy()
        handed_out = self._handed_out[: len(rows)]
        # As bytes: column by column it takes three times as long.
        handed_out.view(np.uint8)[:] = rows.view(np.uint8)
        self._times = self.times()
        self._table.forget_calls()
        self._told_us = [0.0] * len(TimeKind)
        return handed_out


def busiest(times: Rows, most: int = MOST_TIMES) -> tuple[Rows, Int64Array]:
    """Return the ``PATH_TIME`` rows with the most inclusive time, and ``OTHERS`` for all others; and where
    these rows stand in ``times``.

    Callers stand before what they call, and none of them is left out.
    """
    parents = times["parent"].tolist()
    below_us, below = np.maximum(times["exclusive_us"], 0.0), times["calls"].copy()
    for path in range(len(times) - 1, OTHERS, -1):
        if parents[path] != NONE:
            below_us[parents[path]] += below_us[path]
            below[parents[path]] += below[path]
    below[OTHERS] = 0
    # No caller has less time than what it calls, and of two that have the same it stands first.
    by_time = np.argsort(-below_us, kind="stable")
    kept = np.sort(by_time[below[by_time] > 0][:most])
    numbers = np.full(len(times) + 1, NONE, np.int32)
    numbers[kept] = np.arange(1, 1 + len(kept))
    chosen = np.array([OTHERS, *kept], np.int64)
    found = times[chosen]
    found["parent"][1:] = numbers[found["parent"][1:]]
    for name in ("calls", "exclusive_us"):
        found[name][OTHERS] = times[name].sum() - found[name][1:].sum()
    return found, chosen
