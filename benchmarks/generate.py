"""A made-up trace in TAU's layout, with a known set of abnormal calls.

Run: python benchmarks/generate.py PATH [--rows N] [--rows-per-step N] [--engine SST] [--seed N] [--hard]

One rank. Below a root that never ends, calls nest up to five deep, each level with twenty functions of
its own. Runtimes are log-normal about the function's mean; one call in a thousand takes 5 to 20 times
the mean. Of all rows 80 % are entries and exits, 12 % messages, 8 % counter values. Other shapes have
more functions, several threads whose rows interleave, deeper nesting, and calls of a function by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numba import njit

from chimbuko.capture.trace.replay import LOSSLESS_SST_PARAMETERS
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.calls.record import call_id
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep

ROOT = 0
COMM_SHARE = 0.12
COUNTER_SHARE = 0.08
OUTLIER_SHARE = 0.001
OUTLIER_FACTORS = (5.0, 20.0)
SPREAD = 0.2
"""σ of the logarithm of ordinary runtimes."""
RANKS = 64
TIME_COLUMNS = (5, 7, 5)
"""Of events, messages and counters."""
START_US = 1_700_000_000_000_000


@dataclass(frozen=True)
class Shape:
    """What the call trees of a trace look like."""

    functions: int = 100
    """Below the root; each level of the tree has an equal share of its own."""
    depth: int = 5
    """Levels below the root."""
    threads: int = 1
    recursion: float = 0.0
    """Share of the calls that are of the function that calls them."""
    means_us: tuple[float, float] = (50.0, 1000.0)
    """Range of the functions' mean runtimes without the calls inside: 5,000 rows take a second."""


SIMPLE = Shape()
HARD = Shape(functions=5_000, depth=60, threads=32, recursion=0.2)


class SyntheticTrace:
    """Makes the steps of a trace one after the other, the same for the same seed.

    ``injected`` lists the (step, row) of the ENTRY of each abnormal call so far.
    """

    def __init__(
        self,
        rows_per_step: int,
        seed: int = 1,
        outlier_share: float = OUTLIER_SHARE,
        shape: Shape = SIMPLE,
        rank: int = 0,
    ) -> None:
        self.names = StreamNames(
            timers={ROOT: "main"} | {1 + i: _function_name(i, shape) for i in range(shape.functions)},
            counters={0: "TIME", 1: "bytes sent"},
            event_types={int(kind): kind.name for kind in EventType},
            program="synthetic",
        )
        self.injected: list[tuple[int, int]] = []
        self._outlier_share = outlier_share
        self._comms = int(COMM_SHARE * rows_per_step)
        self._counters = int(COUNTER_SHARE * rows_per_step)
        self._events = rows_per_step - self._comms - self._counters
        self._random = np.random.default_rng(seed)
        self._shape = shape
        self._mean_us = self._random.uniform(*shape.means_us, 1 + shape.functions)
        self._open = np.zeros((shape.threads, shape.depth + 1, 2), np.int64)
        self._next = np.zeros((shape.threads, 3), np.int64)
        self._next[:] = -1, START_US, 1
        self.rank = rank
        self._step = 0

    def next_step(self) -> TraceStep:
        """The next step, in arrays of its own."""
        n = self._events
        random = self._random
        is_outlier = random.random(n) < self._outlier_share
        ordinary = random.lognormal(-0.5 * SPREAD**2, SPREAD, n)
        factors = np.where(is_outlier, random.uniform(*OUTLIER_FACTORS, n), ordinary)
        goes_down = random.random(n) < 0.5
        choices = random.integers(0, self._shape.functions // self._shape.depth, n)
        if self._shape.recursion:
            choices[random.random(n) < self._shape.recursion] = -1
        events = np.zeros((n, 6), np.uint64)
        events[:, 1] = self.rank
        _walk(goes_down, choices, factors, self._mean_us, self._open, self._next, events)  # type: ignore
        is_entry = events[:, 3] == EventType.ENTRY
        is_injected = is_outlier & is_entry & (events[:, 4] != ROOT)
        self.injected += [(self._step, int(row)) for row in np.flatnonzero(is_injected)]
        step = TraceStep(self._step, events, self._made_comms(events), self._made_counters(events))
        self._step += 1
        return step

    def _made_comms(self, events: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        rows = np.zeros((self._comms, 8), np.uint64)
        rows[:, 1] = self.rank
        rows[:, 3] = self._random.integers(EventType.SEND, EventType.RECV + 1, len(rows))
        rows[:, 5] = self._random.integers(0, RANKS, len(rows))
        rows[:, 6] = 8 * self._random.integers(1, 4096, len(rows))
        rows[:, 2], rows[:, 7] = _threads_and_times(events, len(rows))
        return rows

    def _made_counters(self, events: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        rows = np.zeros((self._counters, 6), np.uint64)
        rows[:, 1] = self.rank
        rows[:, 3] = 1
        rows[:, 4] = self._random.integers(1, 1 << 20, len(rows))
        rows[:, 2], rows[:, 5] = _threads_and_times(events, len(rows))
        return rows


def _function_name(number: int, shape: Shape) -> str:
    level, index = divmod(number, shape.functions // shape.depth)
    return f"void Solver::level_{level + 1}_stage_{index:02}(double *, int) [{{solver.cpp}} {{{number},1}}]"


def _threads_and_times(
    events: npt.NDArray[np.uint64], count: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Spread evenly over the rows of ``events``: the thread of one, and half-way to the next one's time."""
    before = np.arange(count) * (len(events) - 1) // max(count, 1)
    return events[before, 2], (events[before, 5] + events[before + 1, 5]) // np.uint64(2)


# Not cached: it is imported under two names, from scripts beside it and from tests.
@njit
def _walk(
    goes_down: npt.NDArray[np.bool_],
    choices: npt.NDArray[np.int64],
    factors: npt.NDArray[np.float64],
    mean_us: npt.NDArray[np.float64],
    open_calls: npt.NDArray[np.int64],
    following: npt.NDArray[np.int64],
    events: npt.NDArray[np.uint64],
) -> None:
    """Fill ``events``, in order of time, by random walks through the call tree, one per thread.

    ``open_calls`` i8[threads, depth + 1, 2] holds function and remaining runtime of the open calls.
    ``following`` i8[threads, 3] holds depth, time of the next row, and whether that is an ENTRY. Both are
    kept from one step to the next. Half of a call's own time passes after its ENTRY, half before its
    EXIT. A choice below 0 stands for the function that calls.
    """
    levels = open_calls.shape[1] - 1
    per_level = (len(mean_us) - 1) // levels
    for i in range(len(events)):
        thread = np.argmin(following[:, 1])
        depth, time, is_entry = following[thread]
        events[i, 2] = thread
        events[i, 5] = time
        if is_entry:
            depth += 1
            function = 0
            if depth > 0:
                function = 1 + (depth - 1) * per_level + max(choices[i], 0)
            if depth > 1 and choices[i] < 0:
                function = open_calls[thread, depth - 1, 0]
            half_us = np.int64(0.5 * factors[i] * mean_us[function])
            open_calls[thread, depth, 0] = function
            open_calls[thread, depth, 1] = half_us
            time += half_us + 1
        else:
            function = open_calls[thread, depth, 0]
            events[i, 3] = 1
            time += 2
            depth -= 1
        events[i, 4] = function
        is_entry = depth < 1 or (depth < levels and goes_down[i])
        following[thread, 0] = depth
        following[thread, 1] = time if is_entry else time + open_calls[thread, depth, 1]
        following[thread, 2] = is_entry


def ages_us(step: TraceStep, span_us: float) -> list[UInt64Array]:
    """How long before the newest event each row happened, if the step lasted ``span_us``."""
    interval_us = step.interval_us()
    assert interval_us is not None
    first, last = interval_us
    factor = span_us / (last - first)
    return [
        ((last - rows[:, column]) * factor).astype(np.uint64)
        for rows, column in zip(arrays_of(step), TIME_COLUMNS, strict=True)
    ]


def arrays_of(step: TraceStep) -> tuple[UInt64Array, UInt64Array, UInt64Array]:
    """All that a step brings."""
    return step.events, step.comms, step.counters


def steps_of(trace: SyntheticTrace, count: int) -> Iterator[TraceStep]:
    """The next ``count`` steps."""
    return (trace.next_step() for _ in range(count))


def write_trace(path: Path, trace: SyntheticTrace, steps: int, engine: str = "BP5") -> set[str]:
    """Write the next steps of a trace; returns the ids of its abnormal calls."""
    parameters = LOSSLESS_SST_PARAMETERS if engine == "SST" else {}
    with StreamWriter(path, engine, parameters) as writer:
        for step in steps_of(trace, steps):
            writer.write_step(step.events, step.comms, step.counters, trace.names)
    return {call_id(0, trace.rank, step, row) for step, row in trace.injected}


def main() -> None:
    """Write one trace."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", type=Path, help="the stream's path, ending in .bp")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rows-per-step", type=int, default=500_000)
    parser.add_argument("--engine", default="BP5", choices=("BP4", "BP5", "SST"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--outliers", type=float, default=OUTLIER_SHARE, help="share of abnormal calls")
    parser.add_argument(
        "--hard", action="store_true", help="32 threads, 5,000 functions, depth 60, recursion"
    )
    options = parser.parse_args()
    steps = max(options.rows // options.rows_per_step, 1)
    shape = HARD if options.hard else SIMPLE
    trace = SyntheticTrace(options.rows_per_step, options.seed, options.outliers, shape)
    injected = write_trace(options.path, trace, steps, options.engine)
    print(
        f"{steps} steps of {options.rows_per_step:,} rows, {len(injected):,} abnormal calls: {options.path}"
    )


if __name__ == "__main__":
    main()
