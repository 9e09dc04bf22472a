"""Streams with GPU calls of which it is known what launched them, reported in any order and at any time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from chimbuko.core.traceschema import StreamNames, TraceStep

RANK = 3
START_US = 1_000_000
MAIN, SOLVE, LAUNCH, KERNEL = range(4)
LAUNCHES_PER_SOLVE = 3
CORRELATION = 5
FIRST_ID = 1000

Place = tuple[int, int]
"""Step and row of a call's ENTRY."""


@dataclass(frozen=True)
class Task:
    """One kernel."""

    thread: int
    launched_in: int
    """Step that reports the launch."""
    reported_in: int
    """Step that reports the kernel."""


@dataclass
class GpuTrace:
    """Thread 0 launches; the other threads stand for streams of a GPU."""

    steps: list[TraceStep]
    launches: dict[Place, list[Place]] = field(default_factory=dict)
    """By kernel: the launching call and those around it, innermost first."""


def names(maker: str = "CUDA") -> StreamNames:
    metadata = {(RANK, thread, f"{maker} Stream"): str(thread) for thread in range(1, 4)}
    timers = {MAIN: "main", SOLVE: "solve", LAUNCH: "cudaLaunchKernel", KERNEL: "[CONTEXT] kernel"}
    return StreamNames(timers=timers, counters={CORRELATION: "Correlation ID"}, metadata=metadata)


def gpu_trace(tasks: list[Task]) -> GpuTrace:
    """Launches in the order of ``tasks``, whose steps never fall; nor do those of a thread's kernels."""
    count = 1 + max(max(task.launched_in, task.reported_in) for task in tasks)
    events: list[list[list[int]]] = [[] for _ in range(count)]
    counters: list[list[list[int]]] = [[] for _ in range(count)]
    trace = GpuTrace([])

    def row(step: int, thread: int, kind: int, timer: int, time: int) -> Place:
        events[step].append([0, RANK, thread, kind, timer, time])
        return step, len(events[step]) - 1

    main = row(tasks[0].launched_in, 0, 0, MAIN, START_US)
    solve = main
    stacks = []
    for number, task in enumerate(tasks):
        time = START_US + 10 + 100 * number
        if number % LAUNCHES_PER_SOLVE == 0:
            if number:
                row(task.launched_in, 0, 1, SOLVE, time)
            solve = row(task.launched_in, 0, 0, SOLVE, time)
        launch = row(task.launched_in, 0, 0, LAUNCH, time + 1)
        counters[task.launched_in].append([0, RANK, 0, CORRELATION, FIRST_ID + number, time + 2])
        row(task.launched_in, 0, 1, LAUNCH, time + 3)
        stacks.append([launch, solve, main])
    for number, task in sorted(enumerate(tasks), key=lambda one: one[1].thread):
        time = START_US + 50 + 100 * number
        kernel = row(task.reported_in, task.thread, 0, KERNEL, time)
        row(task.reported_in, task.thread, 1, KERNEL, time + 20 + number)
        counters[task.reported_in].append(
            [0, RANK, task.thread, CORRELATION, FIRST_ID + number, time + 20 + number]
        )
        trace.launches[kernel] = stacks[number]
    for step in range(count):
        counters[step].sort(key=lambda one: (one[5], one))
        trace.steps.append(
            TraceStep(
                step,
                np.array(events[step], np.uint64).reshape(-1, 6),
                np.empty((0, 8), np.uint64),
                np.array(counters[step], np.uint64).reshape(-1, 6),
            )
        )
    return trace


@st.composite
def gpu_tasks(draw: st.DrawFn, most: int = 25, steps: int = 8) -> list[Task]:
    """Kernels reported before, with, or long after their launches, or all in one dump at the end."""
    count = draw(st.integers(1, most))
    numbers = st.lists(st.integers(0, steps - 1), min_size=count, max_size=count)
    launched, reported = sorted(draw(numbers)), sorted(draw(numbers))
    if draw(st.booleans()):
        reported = [steps] * count
    threads = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    return [Task(*one) for one in zip(threads, launched, reported, strict=True)]
