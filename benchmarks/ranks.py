"""A program of many ranks, each a process that streams a made-up trace as it would while it computes.

Run: chimbuko run -- python benchmarks/ranks.py [--ranks N] [--rows-per-step N] [--steps N] [--period S]

The newest event of each step happens at the moment at which the step is written.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator

from generate import HARD, SIMPLE, TIME_COLUMNS, Shape, SyntheticTrace, ages_us, arrays_of

from chimbuko.capture.trace.tausettings import WriterSettings
from chimbuko.core.traceschema import TraceStep

FILLED_SHARE = 0.9
"""Part of the period that a step's events span: what a step is late must not reach back into the last."""


def live_steps(trace: SyntheticTrace, count: int, period_s: float) -> Iterator[TraceStep]:
    """Steps that come one per period, and end now."""
    due = time.monotonic()
    for _ in range(count):
        step = trace.next_step()
        ages = ages_us(step, FILLED_SHARE * period_s * 1e6)
        due = max(due + period_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        now_us = time.time_ns() // 1000
        for rows, column, age_us in zip(arrays_of(step), TIME_COLUMNS, ages, strict=True):
            rows[:, column] = now_us - age_us
        yield step


def run_rank(rank: int, rows_per_step: int, shape: Shape, steps: int, period_s: float) -> None:
    """Write the stream of one rank."""
    trace = SyntheticTrace(rows_per_step, seed=1 + rank, shape=shape)
    with WriterSettings.from_environment(os.environ).open("ranks", rank) as writer:
        for step in live_steps(trace, steps, period_s):
            for rows in arrays_of(step):
                rows[:, 1] = rank
            writer.write_step(step.events, step.comms, step.counters, trace.names)


def main() -> None:
    """Run all ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rows-per-step", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--period", type=float, default=1.0, help="seconds from one step to the next")
    parser.add_argument(
        "--hard", action="store_true", help="32 threads, 5,000 functions, depth 60, recursion"
    )
    options = parser.parse_args()
    shape = HARD if options.hard else SIMPLE
    # Compiled once for all ranks.
    SyntheticTrace(100, shape=shape).next_step()
    children = []
    for rank in range(options.ranks):
        child = os.fork()
        if child == 0:
            run_rank(rank, options.rows_per_step, shape, options.steps, options.period)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
