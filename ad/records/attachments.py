"""What is recorded of selected calls beside their judgement: metrics, and launches of GPU kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import Int32Array, Table, as_table
from chimbuko.core.calls.recordarrays import COUNTER, MEMBER


def table(dtype: np.dtype[np.void], rows: int) -> Table:
    """A new table whose rows kernels can fill."""
    return as_table(np.empty(rows, dtype))


@dataclass(frozen=True)
class CallMetrics:
    """What the metrics of selected calls rose by, call by call in the order of their selection."""

    counts: Int32Array
    """i4[calls]: how many of the rows are the call's; empty where no call has any."""
    rows: Table
    """``COUNTER`` rows."""


@dataclass(frozen=True)
class StepCounters:
    """What the counters say of one step."""

    metrics: CallMetrics
    """Of the calls that were asked for."""
    owners: Int32Array
    """i4[values]: the call that each value of the step is listed with, or NONE."""
    node_state: Table
    """``COUNTER`` rows: last value of each watched counter, in order of first appearance."""


@dataclass(frozen=True)
class CallLaunches:
    """The calls that launched selected ones on a GPU, in the order of their selection."""

    steps: Int32Array
    """i4[calls]: with ``rows`` the launching call, or NO_CALL; empty where no call was launched."""
    rows: Int32Array
    threads: Int32Array
    """i4[calls]: TAU's id of the thread of the launching call, or UNKNOWN_THREAD."""
    counts: Int32Array
    """i4[calls]: how many of the frames are the launching call's."""
    frames: Table
    """``MEMBER`` rows: call stacks at the launch."""


_NONE = np.empty(0, np.int32)
NO_METRICS = CallMetrics(_NONE, table(COUNTER, 0))
NO_COUNTERS = StepCounters(NO_METRICS, _NONE, table(COUNTER, 0))
NO_LAUNCHES = CallLaunches(_NONE, _NONE, _NONE, _NONE, table(MEMBER, 0))
