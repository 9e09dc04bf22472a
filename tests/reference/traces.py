"""Made-up streams of one rank for hypothesis: well-formed ones, and ways to damage them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import StreamNames, TraceStep

RANK = 3
START_US = 1_000_000
THREADS = (0, 1, 2, 7, 300, 65535)
TIMERS = {0: "main", 1: "solve", 2: "MPI_Send()", 3: "MPI_Waitall()", 4: "norm"}
UNNAMED_TIMER = 200
FUNCTIONS = (1, 2, 3, 4, UNNAMED_TIMER)
COUNTERS = {0: "TIME", 1: "monitoring: memory (MB)"}

ABSURD = (0, 1, 2, 4, 299, 65_535, 65_536, 1 << 20, 1 << 31, 1 << 53, 1 << 63, (1 << 64) - 1)

Rows = list[list[int]]


@dataclass
class MadeTrace:
    """Rows in order of recording, with the steps that they were cut into."""

    events: list[Rows] = field(default_factory=list)
    comms: list[Rows] = field(default_factory=list)
    counters: list[Rows] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Step numbers."""

    def steps(self) -> list[TraceStep]:
        return [
            TraceStep(number, _array(events, 6), _array(comms, 8), _array(counters, 6))
            for number, events, comms, counters in zip(
                self.numbers, self.events, self.comms, self.counters, strict=True
            )
        ]


def made_names() -> StreamNames:
    return StreamNames(timers=dict(TIMERS), counters=dict(COUNTERS))


_operations = st.tuples(
    st.sampled_from(("enter", "enter", "leave", "leave", "message", "counter", "cut")),
    st.sampled_from(THREADS),
    st.sampled_from(FUNCTIONS),
    st.sampled_from((0, 0, 1, 5)),
)


@st.composite
def traces(
    draw: st.DrawFn, threads: int = len(THREADS), most: int = 60, with_points: bool = True
) -> MadeTrace:
    """Well-formed: nested calls on several threads, many ties in time, cut into steps anywhere.

    Calls may stay open at the end. Rows of a step are interleaved, or one block per thread.
    """
    trace = MadeTrace()
    # Left to itself a list strategy makes five elements on average.
    operations = st.integers(0, most).flatmap(
        lambda size: st.lists(_operations, min_size=size, max_size=size)
    )
    is_in_blocks = draw(st.booleans())
    open_calls: dict[int, list[int]] = {thread: [] for thread in THREADS}
    events: Rows = []
    comms: Rows = []
    counters: Rows = []
    time = START_US

    def cut() -> None:
        nonlocal events, comms, counters
        trace.events.append(sorted(events, key=lambda row: row[2]) if is_in_blocks else events)
        trace.comms.append(sorted(comms, key=lambda row: row[7]))
        trace.counters.append(sorted(counters, key=lambda row: row[5]))
        trace.numbers.append(len(trace.numbers))
        events, comms, counters = [], [], []

    for kind, thread, function, elapsed_us in draw(operations):
        thread = thread if thread in THREADS[:threads] else THREADS[0]
        time += elapsed_us
        stack = open_calls[thread]
        if kind == "cut":
            cut()
        elif kind == "message" and with_points:
            comms.append([0, RANK, thread, 2 + function % 2, function, 1, 8, time])
        elif kind == "counter" and with_points:
            counters.append([0, RANK, thread, function % 2, function, time])
        elif kind == "leave" and stack:
            events.append([0, RANK, thread, 1, stack.pop(), time])
        else:
            stack.append(function)
            events.append([0, RANK, thread, 0, function, time])
    cut()
    return trace


_damages = st.lists(
    st.tuples(
        st.sampled_from(("drop", "repeat", "alter", "alter", "gap")),
        st.sampled_from(("events", "events", "comms", "counters")),
        st.integers(0, 63),
        st.integers(0, 63),
        st.integers(0, 7),
        st.sampled_from(ABSURD),
    ),
    min_size=1,
    max_size=8,
)


@st.composite
def damaged_traces(draw: st.DrawFn) -> MadeTrace:
    """Rows lost, doubled and altered, and gaps in the numbers of steps."""
    trace = draw(traces())
    for kind, array, at_step, at_row, column, value in draw(_damages):
        step = at_step % len(trace.numbers)
        rows: Rows = getattr(trace, array)[step]
        if kind == "gap":
            trace.numbers[step:] = [number + 1 + at_row for number in trace.numbers[step:]]
        elif not rows:
            continue
        elif kind == "drop":
            del rows[at_row % len(rows)]
        elif kind == "repeat":
            rows.insert(at_row % len(rows), list(rows[at_row % len(rows)]))
        else:
            rows[at_row % len(rows)][column % len(rows[0])] = value
    return trace


def _array(rows: Rows, columns: int) -> UInt64Array:
    return np.array(rows, np.uint64).reshape(len(rows), columns)
