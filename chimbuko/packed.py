"""Records as arrays: how a stream's process makes them, and how they travel to the store.

A record costs its maker less than a microsecond this way and tens of them as objects. Functions and
counters are the stream's own ids; the names that a batch mentions travel beside it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.void]

NO_CALL = -1
"""As step and row of a call: there is none."""

HEAD = np.dtype(
    [
        ("entry_us", np.uint64),
        ("exit_us", np.uint64),  # 0: still open
        ("exclusive_us", np.uint64),
        ("step_start_us", np.uint64),
        ("step_end_us", np.uint64),
        ("score", np.float64),
        ("severity_us", np.float64),
        ("expected_us", np.float64),
        ("spread_us", np.float64),
        ("seen", np.int64),
        ("model_version", np.int64),  # of the global model that judged the call, with the stream's own calls
        ("begin_step", np.int32),  # with begin_row the call's id
        ("begin_row", np.int32),
        ("step", np.int32),  # in which the call ended
        ("thread", np.int32),  # TAU's id
        ("function", np.int32),
        ("depth", np.int32),
        ("children", np.int32),
        ("messages_count", np.int32),
        ("left_out", np.int32),
        ("launch_step", np.int32),  # the call that launched this GPU kernel, or NO_CALL
        ("launch_row", np.int32),
        ("frames", np.int32),  # how many rows of each following array are the record's
        ("members", np.int32),
        ("messages", np.int32),
        ("counters", np.int32),
        ("metrics", np.int32),
        ("node_state", np.int32),
        ("launch_frames", np.int32),
        ("revision", np.uint8),
        ("is_final", np.uint8),
        ("is_anomaly", np.uint8),
        ("is_gpu", np.uint8),
    ],
    align=True,
)
"""The scalar fields of one record, and how many rows it has of each kind below."""

MEMBER = np.dtype(
    [
        ("entry_us", np.uint64),
        ("exit_us", np.uint64),  # 0: open, or its EXIT was lost
        ("step", np.int32),
        ("row", np.int32),
        ("parent_step", np.int32),
        ("parent_row", np.int32),
        ("function", np.int32),
        ("depth", np.int32),
        ("is_anomaly", np.uint8),
    ],
    align=True,
)
"""A call of a stack or of a window."""

MESSAGE = np.dtype(
    [
        ("time_us", np.uint64),
        ("size_bytes", np.uint64),
        ("partner", np.uint64),
        ("tag", np.uint64),
        ("step", np.int32),  # of the call it belongs to
        ("row", np.int32),
        ("is_send", np.uint8),
    ],
    align=True,
)

COUNTER = np.dtype(
    [
        ("time_us", np.uint64),
        ("value", np.uint64),
        ("counter", np.int32),
        ("step", np.int32),  # of the call it belongs to; NO_CALL for the node's state
        ("row", np.int32),
    ],
    align=True,
)


class PackedRecords(msgspec.Struct, frozen=True, array_like=True):
    """Any number of records of one stream; the rows of each kind stand in the order of the heads."""

    heads: bytes = b""
    frames: bytes = b""
    """``MEMBER`` rows of call stacks, the call itself first, outermost last."""
    members: bytes = b""
    """``MEMBER`` rows of windows, in order of entry; the call itself is among them."""
    messages: bytes = b""
    counters: bytes = b""
    metrics: bytes = b""
    """``COUNTER`` rows: what each metric of ``TAU_METRICS`` rose by in the call."""
    node_state: bytes = b""
    """``COUNTER`` rows: last value of each watched counter."""
    launch_frames: bytes = b""
    """``MEMBER`` rows: call stack of the call that launched a GPU kernel."""
    functions: dict[int, str] = {}
    counter_names: dict[int, str] = {}

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.heads) // HEAD.itemsize

    def head_rows(self) -> np.recarray[Any, Any]:
        """The heads as an array, HEAD[count]."""
        return np.frombuffer(self.heads, HEAD).view(np.recarray)
