"""Runs of which it is known what each call is: streams in TAU's layout, and the truth beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.capture.trace.madeup import START_US
from chimbuko.core.arrays import Float64Array, Int64Array, UInt64Array
from chimbuko.core.traceschema import (
    EVENT_COLUMNS,
    EVENT_RANK,
    EVENT_TIME,
    EVENT_TIMER,
    EVENT_TYPE,
    EventType,
    StreamNames,
    TraceStep,
)

ROOT = 0
EPOCHS = 50
GAP_US = 1
"""Between two calls on the same level."""
MOST_CHILDREN = 3

NO_COMMS = np.zeros((0, 8), np.uint64)
NO_COUNTERS = np.zeros((0, 6), np.uint64)


@dataclass(frozen=True)
class Truth:
    """All calls of a run but the roots; parallel arrays."""

    stream: Int64Array
    """Number of the call's stream in the run."""
    entry: Int64Array
    """Which event of the stream its ENTRY is, counted over all steps."""
    function: Int64Array
    runtime_us: Float64Array
    """Exclusive."""
    factor: Float64Array
    """Of the mode's median, for delayed calls; 0 for all others."""
    median_us: Float64Array
    """Of the mode that the call belongs to."""
    quantile_us: Float64Array
    """What 1e-5 of the function's ordinary calls exceed at that time."""
    number: Int64Array
    """Which call of its function it is, over all ranks, in order of their ends, from 1."""
    launched_by: Int64Array
    """Number of the call, in these arrays, that launched it on a GPU; -1 for none."""


@dataclass(frozen=True)
class LabelledStream:
    """One rank, all its steps."""

    program: int
    rank: int
    names: StreamNames
    steps: list[TraceStep]

    def event_number(self, step: Int64Array, row: Int64Array) -> Int64Array:
        """Which event of the stream, counted over all steps, stands in that step's row."""
        starts = np.cumsum([0, *(len(one.events) for one in self.steps)])
        first = self.steps[0].step if self.steps else 0
        return starts[step - first] + row


@dataclass(frozen=True)
class LabelledRun:
    """A run of one scenario."""

    streams: list[LabelledStream]
    truth: Truth
    period_us: int


@dataclass(frozen=True)
class Workload:
    """The calls of a run in the order in which they begin, before they have times; parallel arrays."""

    function: Int64Array
    runtime_us: Float64Array
    factor: Float64Array
    median_us: Float64Array
    quantile_us: Float64Array


def lay_out(work: Workload, names: Sequence[str], ranks: int, random: np.random.Generator) -> LabelledRun:
    """Deal the calls out to ranks of one thread each, nested at random below a root; cut them into steps."""
    runtime_us = np.maximum(np.rint(work.runtime_us), 1.0).astype(np.int64)
    owned = [np.arange(rank, len(runtime_us), ranks) for rank in range(ranks)]
    events = [
        _events(work.function[own], runtime_us[own], rank, len(names), random)
        for rank, own in enumerate(owned)
    ]
    duration_us = max(int(rows[-1, EVENT_TIME]) for rows, _, _ in events) - START_US
    period_us = max(duration_us // EPOCHS, 1)
    streams = [
        LabelledStream(0, rank, _names(names, rank), cut(rows, period_us))
        for rank, (rows, _, _) in enumerate(events)
    ]
    order = np.concatenate(owned)
    exit_us = np.concatenate([rows[exits, EVENT_TIME] for rows, _, exits in events]).astype(np.int64)
    function = work.function[order]
    truth = Truth(
        stream=np.repeat(np.arange(ranks), [len(own) for own in owned]),
        entry=np.concatenate([entries for _, entries, _ in events]),
        function=function,
        runtime_us=runtime_us[order].astype(np.float64),
        factor=work.factor[order],
        median_us=work.median_us[order],
        quantile_us=work.quantile_us[order],
        number=numbered(function, exit_us),
        launched_by=np.full(len(order), -1),
    )
    return LabelledRun(streams, truth, period_us)


def numbered(function: Int64Array, exit_us: Int64Array) -> Int64Array:
    """Which call of its function each is, in order of their ends, from 1."""
    order = np.lexsort((exit_us, function))
    ordered = function[order]
    starts = np.searchsorted(ordered, ordered)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) - starts + 1
    return number


def cut(events: UInt64Array, period_us: int) -> list[TraceStep]:
    """One step per epoch in which there is an event."""
    epochs = events[:, EVENT_TIME] // np.uint64(period_us)
    at = np.flatnonzero(np.diff(epochs)) + 1
    pieces = np.split(events, at)
    return [TraceStep(number, piece, NO_COMMS, NO_COUNTERS) for number, piece in enumerate(pieces)]


def _events(
    function: Int64Array, runtime_us: Int64Array, rank: int, functions: int, random: np.random.Generator
) -> tuple[UInt64Array, Int64Array, Int64Array]:
    """Rows of one rank, and which of them are the calls' ENTRY and EXIT.

    Each parent stands before its children, which follow each other in the middle of its own time.
    """
    n = len(function)
    starts = np.cumsum(random.integers(1, MOST_CHILDREN + 2, n))
    starts = np.concatenate(([0], starts[starts < n]))
    sizes = np.diff(np.append(starts, n))
    call = np.arange(n)
    # Row 0 enters the root; a group of g calls takes 2g rows, of which the parent's are first and last.
    entries, exits = 2 * call, 2 * call + 1
    entries[starts] = 2 * starts + 1
    exits[starts] = 2 * (starts + sizes)
    elapsed_us = np.zeros(2 * n + 2, np.int64)
    elapsed_us[0] = START_US
    elapsed_us[exits] = runtime_us
    has_children = starts[sizes > 1]
    before_us = runtime_us[has_children] // 2
    elapsed_us[exits[has_children]] -= before_us
    elapsed_us[entries[has_children] + 1] = before_us
    elapsed_us[entries[starts]] = GAP_US
    elapsed_us[-1] = GAP_US
    rows = np.zeros((2 * n + 2, EVENT_COLUMNS), np.uint64)
    rows[:, EVENT_RANK] = rank
    rows[exits, EVENT_TYPE] = EventType.EXIT
    rows[-1, EVENT_TYPE] = EventType.EXIT
    timer = _timer(function, rank, functions)
    rows[entries, EVENT_TIMER] = timer
    rows[exits, EVENT_TIMER] = timer
    rows[:, EVENT_TIME] = np.cumsum(elapsed_us)
    return rows, entries, exits


def _timer(function: Int64Array, rank: int, functions: int) -> Int64Array:
    """Ranks number their functions differently, as TAU's do."""
    return 1 + (function + rank) % functions


def _names(names: Sequence[str], rank: int) -> StreamNames:
    timers = _timer(np.arange(len(names)), rank, len(names)).tolist()
    return StreamNames(
        timers={ROOT: "main"} | dict(zip(timers, names, strict=True)),
        event_types={int(kind): kind.name for kind in EventType},
        program="synthetic",
    )
