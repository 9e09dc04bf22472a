"""Calls of one step that are recorded, with their judgements, metrics and launches.

``FloodLimit`` decides which abnormal calls are recorded where a function has very many: the most severe, and
a certain number per period. It is a token bucket per function, filled by trace time, so that the same calls
are kept whenever, and by however many agents, the trace is analysed.

``AgentBudget`` decides it for all functions of a live node at once, where the store cannot take all that is
found: the costliest calls are recorded.
"""

from __future__ import annotations

from math import inf

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.label import ALLOWANCE_WIDTH, ROOM, leave_out
from chimbuko.core.arrays import Float64Array, Int32Array, Int64Array, Table, as_table, grown
from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.calls.recordarrays import COUNTER, MEMBER
from chimbuko.core.config import AnalysisConfig


def table(dtype: np.dtype[np.void], rows: int) -> Table:
    """Return a new table whose rows kernels can fill."""
    return as_table(np.empty(rows, dtype))


class CallMetrics(msgspec.Struct, frozen=True):
    """Increase of metrics in selected calls, call by call in the order of their selection."""

    counts: Int32Array
    """Number of rows of each call, int32[calls]; empty if no call has any."""
    rows: Table
    """``COUNTER`` rows."""


class StepCounters(msgspec.Struct, frozen=True):
    """Counters of one step."""

    metrics: CallMetrics
    """Metrics of the calls that were asked for."""
    owners: Int32Array
    """Call that each value of the step is listed with, or NONE; int32[values]."""
    node_state: Table
    """``COUNTER`` rows: last value of each watched counter, in order of first appearance."""


class CallLaunches(msgspec.Struct, frozen=True):
    """Calls that launched selected ones on a GPU, in the order of their selection."""

    steps: Int32Array
    """Step of each launching call, which ``rows`` completes, or NO_CALL; int32[calls], empty where no call
    was launched.
    """
    rows: Int32Array
    threads: Int32Array
    """TAU's thread id of each launching call, or UNKNOWN_THREAD; int32[calls]."""
    counts: Int32Array
    """Number of frames of each launching call, int32[calls]."""
    frames: Table
    """``MEMBER`` rows: call stacks at the launch."""


_NONE = np.empty(0, np.int32)
NO_METRICS = CallMetrics(_NONE, table(COUNTER, 0))
NO_COUNTERS = StepCounters(NO_METRICS, _NONE, table(COUNTER, 0))
NO_LAUNCHES = CallLaunches(_NONE, _NONE, _NONE, _NONE, table(MEMBER, 0))


NO_ROWS = np.empty(0, np.int32)
PARALLEL = "rows", "is_anomaly", "score", "severity_us", "expected_us", "spread_us", "seen"
"""Fields of a selection that have one element per call."""


class Selection(msgspec.Struct, frozen=True):
    """Selected calls of a step, as parallel arrays with one element per call."""

    rows: npt.NDArray[np.int32]
    """Rows of the call table, ascending."""
    is_anomaly: npt.NDArray[np.bool_]
    """Whether the call is abnormal; the others are normal calls, kept for comparison."""
    score: Float64Array
    severity_us: Float64Array
    """Time lost against what was expected, in µs."""
    expected_us: Float64Array
    spread_us: Float64Array
    seen: Float64Array
    """Number of calls of the function known when the call was judged."""
    left_out: npt.NDArray[np.int32] = NO_ROWS
    """Rows of abnormal calls that are not recorded, as there are too many of their function, or in all."""
    beyond_budget: int = 0
    """Number of those for which their functions had room."""

    @property
    def flagged(self) -> npt.NDArray[np.int32]:
        """Rows of all abnormal calls."""
        return np.concatenate([self.rows[self.is_anomaly], self.left_out])

    def without(self, left_out: npt.NDArray[np.int32], beyond_budget: int) -> Selection:
        """Return the selection without these calls, given by their index, of which so many are beyond the
        budget.
        """
        is_kept = np.ones(len(self.rows), np.bool_)
        is_kept[left_out] = False
        kept = {name: getattr(self, name)[is_kept] for name in PARALLEL}
        return Selection(**kept, left_out=np.sort(self.rows[left_out]), beyond_budget=beyond_budget)

    @classmethod
    def none(cls) -> Selection:
        """Return an empty selection."""
        nothing = np.empty(0)
        return cls(NO_ROWS, np.empty(0, np.bool_), nothing, nothing, nothing, nothing, nothing)


BURST_PERIODS = 10
"""Number of quiet periods of a function after which its whole unused allowance may be recorded at once."""


class FloodLimit:
    """Limit on abnormal calls of one stream: leaves out those that are too many of their function.

    Never left out is the most severe call of its function so far, nor one that was open across steps: each
    thread has few of these, and they may have been reported while they were open.

    Attributes
    ----------
    least_us
        Severity below which calls are too many for the node; 0 where it has no budget.
    offered
        Number of calls of each severity that the node would record without a budget, int64[BUCKETS].
    """

    def __init__(self, config: AnalysisConfig) -> None:
        self.least_us = 0.0
        self.offered = np.zeros(BUCKETS, np.int64)
        self._most_per_us = config.max_anomalies_per_function / config.period_us
        self._unused = np.zeros(ALLOWANCE_WIDTH)
        self._unused[ROOM] = BURST_PERIODS * config.max_anomalies_per_function
        self._allowances = np.empty((0, ALLOWANCE_WIDTH))

    def keep(self, selection: Selection, calls: Table, carried: int, timers: int, now_us: int) -> Selection:
        """Return the selection of a step without the calls that are too many.

        Parameters
        ----------
        calls
            The call table; the first ``carried`` calls are of earlier steps.
        timers
            Upper bound (exclusive) of the calls' functions.
        now_us
            End of the step.
        """
        if not len(selection.rows):
            return selection
        self._allowances = grown(self._allowances, timers, self._unused)
        left_out = np.empty(len(selection.rows), np.int32)
        offered = int(self.offered.sum()) if self.least_us else 0
        count = leave_out(
            selection.rows,
            selection.is_anomaly,
            selection.severity_us,
            calls,
            carried,
            float(now_us),
            self._most_per_us,
            float(self._unused[ROOM]),
            float(self.least_us),
            self._allowances,
            self.offered,
            left_out,
        )
        if not count:
            return selection
        found = int((selection.is_anomaly & (selection.rows >= carried)).sum())
        with_room = int(self.offered.sum()) - offered if self.least_us else found - count
        return selection.without(left_out[:count], with_room - (found - count))


SAVED_S = 10.0
"""Time in seconds for which a node may save what it does not use of its budget, or be ahead of it."""


class AgentBudget:
    """Budget of abnormal calls of one agent, where the store cannot take all that agents find.

    It says from which severity calls are recorded, so that these are the costliest, and that nothing is left
    out while the agent finds less than its budget.
    """

    def __init__(self) -> None:
        self._room = inf
        """Number of calls that may be recorded beside those of the next period; below 0 where too many
        were.
        """
        self._at = 0
        """Bucket of severities from which calls are recorded."""

    def least_us(self, offered: Int64Array, passed_s: float, per_s: float | None) -> float:
        """Return the severity from which calls are recorded in a period as long as the last one; 0 for all.

        Parameters
        ----------
        offered
            Number of calls of each severity in the last period, int64[BUCKETS], recorded or not.
        passed_s
            Length of that period.
        per_s
            Calls per second that the store takes of this agent; None for all.
        """
        if per_s is None:
            self._room, self._at = inf, 0
            return 0.0
        saved, earned = SAVED_S * per_s, passed_s * per_s
        room = min(self._room, saved) + earned - float(offered[self._at :].sum())
        self._room = min(max(room, -saved), saved)
        above = offered[::-1].cumsum()
        self._at = BUCKETS - int((above <= self._room + earned).sum())
        return float(EDGES_US[self._at]) if self._at else 0.0
