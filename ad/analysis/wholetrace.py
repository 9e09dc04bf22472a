"""All calls, messages and launches of a recorded stream, for views of the whole trace.

The analysis keeps what is around abnormal calls; here each call is rebuilt and kept, 60 bytes of memory each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chimbuko.ad.calls.launches import CORRELATION_ID, GPU_KEYS
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels.stack import LOST, NONE, UNCERTAIN, UNKNOWN
from chimbuko.capture.trace.discovery import BP_FILE, StreamName
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.replay import END_WAIT_S, steps_of
from chimbuko.core.arrays import Table
from chimbuko.core.traceschema import (
    COMM_PARTNER,
    COMM_RANK,
    COMM_SIZE,
    COMM_TAG,
    COMM_THREAD,
    COMM_TIME,
    COMM_TYPE,
    COUNTER_NUMBER,
    COUNTER_VALUE,
    EventType,
    StreamNames,
    TraceStep,
)

TRACED_CALL = np.dtype(
    [
        ("begin_us", np.int64),
        ("end_us", np.int64),  # of an open call the last time at which it is known to be open
        ("exclusive_us", np.int64),
        ("function", np.int32),  # the stream's own timer id
        ("thread", np.int32),  # TAU's id
        ("depth", np.int32),
        ("step", np.int32),
        ("row", np.int32),
        ("is_open", np.bool_),
        ("is_doubtful", np.bool_),
    ],
    align=True,
)
TRACED_MESSAGE = np.dtype(
    [
        ("time_us", np.int64),
        ("bytes", np.int64),
        ("thread", np.int32),
        ("depth", np.int32),  # of the call that it is in; -1 if it is in none
        ("partner", np.int32),
        ("tag", np.int32),
        ("is_send", np.bool_),
    ],
    align=True,
)
TRACED_LAUNCH = np.dtype(
    [
        ("time_us", np.int64),  # entry of the launching call
        ("kernel_us", np.int64),  # entry of what it launched
        ("thread", np.int32),
        ("depth", np.int32),
        ("kernel_thread", np.int32),
        ("kernel_depth", np.int32),
    ],
    align=True,
)
_CORRELATED = np.dtype([("id", np.uint64), ("time_us", np.int64), ("thread", np.int32), ("depth", np.int32)])
_DOUBTS = LOST | UNCERTAIN | UNKNOWN


@dataclass(frozen=True)
class WholeTrace:
    """Contents of one recorded stream."""

    names: StreamNames
    gpu_threads: list[int]
    calls: Table
    """``TRACED_CALL`` rows, in no order."""
    messages: Table
    """``TRACED_MESSAGE`` rows, in order of the trace."""
    launches: Table
    """``TRACED_LAUNCH`` rows, in no order."""
    interval_us: tuple[int, int]
    """First and last time in µs; both 0 where there is none."""
    gaps_us: list[tuple[int, int]]
    """Intervals in which steps of the stream are missing, in µs."""


def read_whole(stream: StreamName, progress: Callable[[int], None]) -> WholeTrace:
    """Read all of a recorded stream; what follows a damaged step is missing.

    Parameters
    ----------
    progress
        Called after each step with the number of rows read so far.

    Raises
    ------
    TraceFormatError
        The stream cannot be opened.
    """
    with StreamReader(stream.path, BP_FILE, END_WAIT_S, stream.rank, stream.first_rank) as reader:
        return whole_trace(steps_of(reader), reader.names, stream.rank, progress)


def whole_trace(
    steps: Iterable[TraceStep],
    names: StreamNames,
    rank: int,
    progress: Callable[[int], None] = lambda rows: None,
) -> WholeTrace:
    """Return all that the steps of a stream hold; ``names`` are those that are known by each step."""
    collected = _Collected(CallStacks(rank))
    rows = 0
    for step in steps:
        collected.add(step, names)
        rows += step.rows
        progress(rows)
    return collected.whole(names, rank)


@dataclass
class _Collected:
    """Calls, messages and launches that were read so far."""

    stacks: CallStacks
    calls: list[Table] = field(default_factory=list)
    messages: list[Table] = field(default_factory=list)
    correlated: list[Table] = field(default_factory=list)
    gaps_us: list[tuple[int, int]] = field(default_factory=list)
    interval_us: tuple[int, int] | None = None

    def add(self, step: TraceStep, names: StreamNames) -> None:
        """Add one step."""
        stacks = self.stacks
        gaps = stacks.gap_steps
        stacks.build(step, names)
        self._note_times(stacks.gap_steps > gaps)
        calls = stacks.calls[: stacks.count]
        has_ended = (calls["exit"] > 0) | ((calls["doubts"] & LOST) != 0)
        self.calls.append(self._traced(calls, has_ended))
        self.messages.append(self._messages(step, names))
        self.correlated.append(self._correlated(step, names))

    def whole(self, names: StreamNames, rank: int) -> WholeTrace:
        """Return all that was read; calls that did not end are open."""
        calls = self.stacks.calls[: self.stacks.count]
        is_open = (calls["exit"] == 0) & ((calls["doubts"] & LOST) == 0)
        self.calls.append(self._traced(calls, is_open))
        gpu_threads = sorted({thread for of, thread, key in names.metadata if key in GPU_KEYS and of == rank})
        return WholeTrace(
            names,
            gpu_threads,
            np.concatenate(self.calls),
            _joined(self.messages, TRACED_MESSAGE),
            _launches(_joined(self.correlated, _CORRELATED), gpu_threads),
            self.interval_us or (0, 0),
            self.gaps_us,
        )

    def _note_times(self, is_gap: bool) -> None:
        interval = self.stacks.interval_us
        if interval is None:
            return
        if is_gap and self.interval_us is not None:
            self.gaps_us.append((self.interval_us[1], max(self.interval_us[1], interval[0])))
        before = self.interval_us or interval
        self.interval_us = min(before[0], interval[0]), max(before[1], interval[1])

    def _traced(self, table: Table, chosen: npt.NDArray[np.bool_]) -> Table:
        calls = table[chosen]
        made = np.empty(len(calls), TRACED_CALL)
        made["begin_us"] = calls["entry"]
        last_us = self.interval_us[1] if self.interval_us else 0
        made["is_open"] = calls["exit"] == 0
        made["end_us"] = np.where(made["is_open"], np.maximum(made["begin_us"], last_us), calls["exit"])
        runtime = made["end_us"] - made["begin_us"]
        made["exclusive_us"] = np.maximum(0, runtime - calls["child_us"].astype(np.int64))
        for name in ("function", "depth", "step", "row"):
            made[name] = calls[name]
        made["thread"] = self.stacks.threads["id"][calls["thread"]]
        made["is_doubtful"] = (calls["doubts"] & _DOUBTS) != 0
        return made

    def _messages(self, step: TraceStep, names: StreamNames) -> Table:
        send, receive = names.event_type_id(EventType.SEND), names.event_type_id(EventType.RECV)
        kinds = step.comms[:, COMM_TYPE]
        is_ours = (step.comms[:, COMM_RANK] == self.stacks.rank) & ((kinds == send) | (kinds == receive))
        rows, calls = step.comms[is_ours], self.stacks.message_calls[is_ours]
        made = np.empty(len(rows), TRACED_MESSAGE)
        made["time_us"], made["bytes"] = rows[:, COMM_TIME], rows[:, COMM_SIZE]
        made["thread"], made["partner"] = rows[:, COMM_THREAD], rows[:, COMM_PARTNER]
        made["tag"] = rows[:, COMM_TAG].astype(np.int64) & 0x7FFFFFFF
        made["depth"] = np.where(calls == NONE, -1, self.stacks.calls["depth"][calls])
        made["is_send"] = rows[:, COMM_TYPE] == send
        return made

    def _correlated(self, step: TraceStep, names: StreamNames) -> Table:
        """Return correlation ids, each with the call that has it."""
        counter = next((number for number, name in names.counters.items() if name == CORRELATION_ID), NONE)
        at = np.flatnonzero(
            (step.counters[:, COUNTER_NUMBER].astype(np.int64) == counter)
            & (self.stacks.counter_calls != NONE)
        )
        calls = self.stacks.calls[self.stacks.counter_calls[at]]
        made = np.empty(len(at), _CORRELATED)
        made["id"], made["time_us"] = step.counters[at, COUNTER_VALUE], calls["entry"]
        made["thread"] = self.stacks.threads["id"][calls["thread"]]
        made["depth"] = calls["depth"]
        return made


def _joined(parts: list[Table], dtype: np.dtype[np.void]) -> Table:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _launches(correlated: Table, gpu_threads: list[int]) -> Table:
    """Return each GPU call with the call that has the same correlation id on a thread of the host."""
    is_gpu = np.isin(correlated["thread"], gpu_threads)
    launches, kernels = correlated[~is_gpu], correlated[is_gpu]
    launches = launches[np.argsort(launches["id"], kind="stable")]
    at = np.searchsorted(launches["id"], kernels["id"])
    is_found = at < len(launches)
    is_found[is_found] = launches["id"][at[is_found]] == kernels["id"][is_found]
    launch, kernel = launches[at[is_found]], kernels[is_found]
    made = np.empty(len(kernel), TRACED_LAUNCH)
    made["time_us"], made["thread"], made["depth"] = launch["time_us"], launch["thread"], launch["depth"]
    made["kernel_us"], made["kernel_thread"] = kernel["time_us"], kernel["thread"]
    made["kernel_depth"] = kernel["depth"]
    return made
