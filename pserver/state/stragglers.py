"""Detection of ranks that are slow all the time: a bad node makes each call a little longer, and none
abnormal. Pure.

In each window of trace time the mean runtime of each rank's ordinary calls of a function is compared with
that of the middle rank. The median over a rank's last windows says how slow it is all the time; the spread of
these medians over the ranks says what is usual.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Float64Array, Int64Array, Rows, distinct, grown
from chimbuko.pserver.state.totals import RowIndex
from chimbuko.runtime.protocol.telemetry import PACE, SlowRank

LEAST_RANKS = 3
WINDOWS = 12
"""Number of windows of which the median is taken: a rank that was slow in fewer than half of them does not
count as slow.
"""
LEAST_WINDOWS = 4
LEAST_DEVIATIONS = 6.0
LEAST_RATIO = 1.05
USUAL_SPREAD = 0.015
"""Usual standard deviation, in the logarithm, of the pace of healthy ranks."""
USUAL_SPREAD_RANKS = 4.0
"""Weight of ``USUAL_SPREAD`` in ranks: the measured spread of four ranks says little by itself."""
MOST_WAITING = 12
"""Maximum number of windows that wait for the slowest rank to report them; a rank that is further behind is
left out.
"""
MOST_TOLD = 1000
ROWS_AT_ONCE = 10_000
"""Maximum number of rows compared in one call: a whole window of 10,000 ranks in 16 functions would hold up
the server for 0.12 s.
"""

EVERYTHING = -1
"""Function number that stands for all functions of a rank, weighted by the time they take: where the node is
bad all of them are slow, and the deviation of a single one is lost in noise.
"""

_MAD_OF_NORMAL = 0.6745
_ERROR_OF_MEDIAN = 1.2533

_COMPARED = np.dtype(
    [
        ("rank", np.int32),
        ("function", np.int32),
        ("calls", np.int64),
        ("time_us", np.float64),
        ("deviation", np.float64),
    ]
)
"""One rank in one function in one window; the deviation is the logarithm of its mean runtime, in the end less
that of the middle rank.
"""

_STATE = np.dtype(
    [
        ("rank", np.int32),
        ("function", np.int32),
        ("window", np.int64),
        ("windows", np.int32),
        ("ranks", np.int32),
        ("deviations", np.float32, (WINDOWS,)),
        ("deviation", np.float32),
        ("z", np.float32),
        ("lost_us", np.float64),
        ("is_slow", np.bool_),
    ]
)
"""State of one rank in one function: the newest window it was compared in, the number of windows, its
deviations in the last of them, newest first, as natural logarithms, and the results.
"""


class SavedProgram(msgspec.Struct, frozen=True, array_like=True):
    """Saved state of one program."""

    program: int
    state: bytes
    newest: bytes
    waiting: bytes
    """``PACE`` rows of windows that are not compared yet."""
    compared: int
    """Last window that is compared."""


class SlowRanks:
    """Comparison of ranks window by window, once all of them have reported a window."""

    def __init__(self) -> None:
        self._programs: dict[int, _Program] = {}
        self._arrived: list[Rows] = []

    def take(self, paces: Rows) -> None:
        """Take in ``PACE`` rows with global function numbers, except those of windows that were compared
        already.
        """
        self._arrived.append(paces)

    def compare(self, is_last: bool = False) -> bool:
        """Compare the windows that are complete, at the end all; return whether that may have changed the
        slow ranks.
        """
        self._settle()
        compared = [program.compare_complete(is_last) for program in self._programs.values()]
        return any(compared)

    def slow(self, function_name: Callable[[int], str], node_of: Callable[[int, int], str]) -> list[SlowRank]:
        """Return the ranks that are slow, the most time lost first.

        Parameters
        ----------
        function_name
            Callback that returns the name of a global function number.
        node_of
            Callback that returns the node of a program and rank.
        """
        found = [
            SlowRank(
                program=program,
                rank=int(row["rank"]),
                node=node_of(program, int(row["rank"])),
                function="" if row["function"] == EVERYTHING else function_name(int(row["function"])),
                ratio=math.exp(row["deviation"]),
                deviations=float(row["z"]),
                lost_us=float(row["lost_us"]),
                windows=int(row["windows"]),
                ranks=int(row["ranks"]),
            )
            for program, known in self._programs.items()
            for row in known.slow_rows()
        ]
        return sorted(found, key=lambda slow: slow.lost_us, reverse=True)[:MOST_TOLD]

    def dump(self) -> list[SavedProgram]:
        """Return everything, for ``restore``."""
        self._settle()
        return [known.dump(program) for program, known in self._programs.items()]

    def restore(self, saved: list[SavedProgram]) -> None:
        """Restore what was dumped, into a new object."""
        self._programs = {one.program: _Program.restored(one) for one in saved}

    def _settle(self) -> None:
        """Give the waiting rows to their programs, all at once, since each look at an array takes a while."""
        if not self._arrived:
            return
        arrived = np.concatenate(self._arrived)
        self._arrived.clear()
        for program in distinct(arrived["program"]).tolist():
            known = self._programs.setdefault(program, _Program())
            known.take(arrived[arrived["program"] == program])


class _Comparison(msgspec.Struct):
    """A window that is being compared."""

    window: int
    compared: Rows
    """``_COMPARED`` rows of the window."""
    rows: Int64Array
    """Rows of ``_STATE`` that belong to ``compared``."""
    functions: deque[slice]
    """Slices of ``compared`` by function, of those that are not compared yet."""


class _Program:
    """State of the ranks of one program."""

    def __init__(self) -> None:
        self._index = RowIndex()
        self._state = np.zeros(0, _STATE)
        self._newest = np.zeros(0, np.int64)
        """Newest window that each rank has reported, int64[ranks]."""
        self._waiting: dict[int, list[Rows]] = {}
        """Windows that are not compared yet, the one that is being compared among them."""
        self._comparison: _Comparison | None = None
        self._compared = -1

    def take(self, paces: Rows) -> None:
        ranks = int(paces["rank"].max()) + 1
        if ranks > len(self._newest):
            self._newest = np.concatenate(
                [self._newest, np.full(2 * ranks - len(self._newest), -1, np.int64)]
            )
        np.maximum.at(self._newest, paces["rank"], paces["window"])
        for window in distinct(paces["window"]).tolist():
            if window > self._compared:
                self._waiting.setdefault(window, []).append(paces[paces["window"] == window])

    def compare_complete(self, is_last: bool) -> bool:
        newest = int(self._newest.max(initial=-1))
        still_here = self._newest[self._newest > max(newest - MOST_WAITING, -1)]
        # A rank that has reported nothing yet may still do so: it gets the time of a window.
        complete = newest if is_last else int(still_here.min(initial=newest - 1))
        count = 0
        while is_last or count < ROWS_AT_ONCE:
            if self._comparison is None:
                window = min(self._waiting, default=newest + 1)
                if window > complete:
                    break
                self._comparison = self._begin(window)
            count += self._compare_function(self._comparison)
        return count > 0

    def slow_rows(self) -> Rows:
        state: Rows = self._state[: len(self._index)]
        return state[np.flatnonzero(state["is_slow"])]

    def dump(self, program: int) -> SavedProgram:
        waiting = [rows for parts in self._waiting.values() for rows in parts]
        return SavedProgram(
            program,
            self._state[: len(self._index)].tobytes(),
            self._newest.tobytes(),
            b"".join(rows.tobytes() for rows in waiting),
            self._compared,
        )

    @classmethod
    def restored(cls, saved: SavedProgram) -> _Program:
        program = cls()
        program._state = np.frombuffer(saved.state, _STATE).copy()
        program._index.rows(0, program._state["rank"], program._state["function"])
        program._newest = np.frombuffer(saved.newest, np.int64).copy()
        program._compared = saved.compared
        if saved.waiting:
            program.take(np.frombuffer(saved.waiting, PACE))
        return program

    def _begin(self, window: int) -> _Comparison:
        compared = _deviations(np.concatenate(self._waiting[window]))
        rows = self._index.rows(0, compared["rank"], compared["function"])
        self._state = grown(self._state, len(self._index))
        self._state["rank"][rows] = compared["rank"]
        self._state["function"][rows] = compared["function"]
        return _Comparison(window, compared, rows, deque(_by_function(compared)))

    def _compare_function(self, comparison: _Comparison) -> int:
        """Compare the ranks in one function; return the number of rows compared."""
        count = 0
        if comparison.functions:
            of_function = comparison.functions.popleft()
            rows = comparison.rows[of_function]
            # Before a restart that function may have been compared already.
            if self._state["window"][rows[0]] != comparison.window:
                self._judge(comparison.compared[of_function], rows, comparison.window)
                count = len(rows)
        if not comparison.functions:
            self._comparison = None
            self._compared = comparison.window
            del self._waiting[comparison.window]
        return count

    def _judge(self, compared: Rows, rows: Int64Array, window: int) -> None:
        """Decide which ranks are slow in one function; ``rows`` are those of their state."""
        state = self._state[rows]
        state["deviations"][:, 1:] = state["deviations"][:, :-1]
        state["deviations"][:, 0] = compared["deviation"]
        state["lost_us"] += compared["time_us"] * -np.expm1(-compared["deviation"])
        state["window"] = window
        state["windows"] += 1
        state["ranks"] = len(rows)
        typical, noise = _over_windows(state["deviations"], state["windows"])
        typical -= np.median(typical)
        # The fewer calls, the less their mean says.
        trust = np.sqrt(np.minimum(compared["calls"] / np.median(compared["calls"]), 1.0))
        state["deviation"] = typical
        state["z"] = typical * trust / _spread(typical, noise)
        state["is_slow"] = (
            (state["windows"] >= LEAST_WINDOWS)
            & (state["z"] >= LEAST_DEVIATIONS)
            & (typical >= math.log(LEAST_RATIO))
        )
        self._state[rows] = state


def _deviations(paces: Rows) -> Rows:
    """Return ``_COMPARED`` rows by function, for functions that enough ranks called, and for each rank in all
    functions.
    """
    _, once = np.unique((paces["function"].astype(np.int64) << 32) | paces["rank"], return_index=True)
    # A window that is reported twice counts once.
    paces = paces[once]
    compared = np.zeros(len(paces), _COMPARED)
    for name in ("rank", "function", "calls", "time_us"):
        compared[name] = paces[name]
    compared["deviation"] = np.log(paces["time_us"] / paces["calls"])
    is_compared = np.zeros(len(paces), np.bool_)
    for of_function in _by_function(compared):
        part = compared["deviation"][of_function]
        if len(part) >= LEAST_RANKS:
            part -= np.median(part)
            is_compared[of_function] = True
    compared = compared[is_compared]
    whole = _whole_ranks(compared)
    return np.concatenate([whole, compared])


def _whole_ranks(compared: Rows) -> Rows:
    """Return ``_COMPARED`` rows of ranks in all functions together."""
    ranks, which = np.unique(compared["rank"], return_inverse=True)
    whole = np.zeros(len(ranks), _COMPARED)
    whole["rank"], whole["function"] = ranks, EVERYTHING
    whole["calls"] = np.bincount(which, compared["calls"])
    whole["time_us"] = np.bincount(which, compared["time_us"])
    weighted = np.bincount(which, compared["deviation"] * compared["time_us"])
    whole["deviation"] = weighted / np.maximum(whole["time_us"], 1.0)
    return whole


def _by_function(compared: Rows) -> list[slice]:
    """Return a slice of rows for each function; the rows of one stand together."""
    ends = [*(np.flatnonzero(np.diff(compared["function"])) + 1).tolist(), len(compared)]
    return [slice(begin, end) for begin, end in itertools.pairwise([0, *ends]) if begin < end]


def _over_windows(
    deviations: npt.NDArray[np.float32], windows: npt.NDArray[np.int32]
) -> tuple[Float64Array, float]:
    """Return the median of each rank over as many of its last windows as there are, float64[n], and its
    standard error, as far as the windows differ from each other.
    """
    held = np.minimum(windows, WINDOWS)
    is_held = np.arange(WINDOWS) < held[:, np.newaxis]
    ordered = np.where(is_held, deviations, np.inf).astype(np.float64)
    ordered.sort(axis=1)
    each = np.arange(len(ordered))
    median = (ordered[each, (held - 1) // 2] + ordered[each, held // 2]) / 2.0
    distances = np.abs(deviations - median[:, np.newaxis])[is_held]
    most = float(np.median(held))
    # One degree of freedom less: the median is estimated from the same windows.
    noise = float(np.median(distances)) / _MAD_OF_NORMAL * math.sqrt(most / max(most - 1.0, 1.0))
    return median, _ERROR_OF_MEDIAN * noise / math.sqrt(most)


def _spread(deviations: Float64Array, noise: float) -> float:
    """Return the standard deviation of healthy ranks, from the median of the distances from the middle
    one.
    """
    ranks = len(deviations)
    own = float(np.median(np.abs(deviations))) / _MAD_OF_NORMAL
    known = ranks * own * own + USUAL_SPREAD_RANKS * (USUAL_SPREAD * USUAL_SPREAD + noise * noise)
    return math.sqrt(known / (ranks + USUAL_SPREAD_RANKS))
