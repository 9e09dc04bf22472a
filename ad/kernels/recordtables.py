"""Tables that records are made in: what stays between steps, input and output; filled by
``ad.kernels.windows`` and ``output``, held by ``ad.calls.windows``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.retained import Sizes
from chimbuko.core.arrays import Float64Array, Int32Array, Table, UInt8Array

MAX_FRAMES = 1000
"""Maximum number of innermost calls of a stack that are kept: a recursion that runs away would fill the
memory.
"""

WINDOW = np.dtype(
    [
        ("thread", np.int32),
        ("before", np.int32),  # how many neighbours are known
        ("after", np.int32),
        ("last_step", np.int32),  # a record is final after this step, filled or not
    ],
    align=True,
)
"""Window of a call; the references to its calls stand in the row of an array, int32[windows, 2k + 1], around
its own.
"""


# Cells of a ``Room``.
ROOM_CALLS = 0
ROOM_THREADS = 1
ROOM_TIMERS = 2
ROOM_STEP_MESSAGES = 3
ROOM_STEP_COUNTERS = 4
ROOM_RECORDS = 5
ROOM_FRAMES = 6
ROOM_NODE_STATE = 7
ROOM_METRICS = 8
ROOM_LAUNCH_FRAMES = 9
ROOM_OPEN = 10
ROOM_HELD = 11
ROOM_MESSAGES = 12
ROOM_COUNTERS = 13
ROOMS = 14


class Room(NamedTuple):
    """Maximum number of rows of each kind that a step needs, and that there is room for."""

    needed: Sizes
    """Number of rows needed, int64[ROOMS]."""
    given: Sizes


class Places(NamedTuple):
    """References to held calls."""

    sizes: Sizes
    recent: Int32Array
    """Last calls entered on each thread, newest last; int32[threads, k]."""
    open: Table
    """``WINDOW`` rows of the open calls, in order of their rows."""
    open_around: Int32Array
    heads: Table
    """``HEAD`` rows of records whose window has not filled."""
    windows: Table
    """``WINDOW`` rows of these records."""
    around: Int32Array
    frames: Int32Array
    """References to the calls of the records' stacks; ``heads`` says how many each has."""
    node_state: Table
    metrics: Table
    launch_frames: Table


class Chosen(NamedTuple):
    """Calls to record, in order of their rows, with the data of each.

    Where none has metrics, or none a launch, their arrays are empty.
    """

    rows: Int32Array
    is_anomaly: npt.NDArray[np.bool_]
    score: Float64Array
    severity_us: Float64Array
    expected_us: Float64Array
    spread_us: Float64Array
    seen: Float64Array
    flagged: Int32Array
    """Rows of all abnormal calls, including those that are not recorded."""
    metrics_count: Int32Array
    metrics: Table
    """``COUNTER`` rows of the calls' metrics."""
    launch_step: Int32Array
    launch_row: Int32Array
    launch_thread: Int32Array
    launch_count: Int32Array
    launch_frames: Table
    """``MEMBER`` rows of the stacks at launches."""


class About(NamedTuple):
    """Facts that all records of a step share."""

    step: int
    start_us: int
    end_us: int
    model_version: int
    final_after_steps: int
    max_messages: int
    max_counters: int
    is_gpu: UInt8Array
    """Whether each thread is a GPU's, uint8[threads]."""
    node_state: Table
    """``COUNTER`` rows of the node's state."""


class Out(NamedTuple):
    """Output records, as in ``PackedRecords``."""

    sizes: Sizes
    heads: Table
    frames: Table
    members: Table
    messages: Table
    counters: Table
    metrics: Table
    node_state: Table
    launch_frames: Table
    calls: Int32Array
    """Numbers of the held calls in ``members``."""
    callers: Int32Array
    """Numbers of the held calls in ``frames``."""
    functions: Int32Array
    """Functions that are mentioned."""
    is_mentioned: UInt8Array
    """Mark of each function that is mentioned, uint8[timers]."""
    counter_names: Int32Array
    is_counter_mentioned: UInt8Array
