"""Times of calls add up, per thread, to that from its first to its last event."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.calls.callpaths import CallPaths, UsualRuntimes
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.reference.traces import RANK, made_names

NO_ROWS = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
functions = st.integers(1, 6)
moves = st.tuples(
    st.integers(0, 2), st.sampled_from(["call", "call", "return", "lost"]), functions, st.integers(0, 5_000)
)


@given(st.lists(moves, max_size=60), st.lists(st.integers(1, 9), min_size=60, max_size=60))
def test_times_of_random_programs_add_up(moves: list[tuple[int, str, int, int]], lengths: list[int]) -> None:
    """Calls once and often, open ones, some whose EXIT is lost, in steps of any length, some of which are
    missing.
    """
    now_us, rows = 1_000_000, []
    opened: dict[int, list[int]] = {0: [], 1: [], 2: []}
    # Each thread is in one call all the time: what is in none is nobody's.
    rows += [[0, RANK, thread, 0, 7, now_us] for thread in opened]
    for thread, move, function, passed_us in moves:
        now_us += passed_us
        if move == "call":
            opened[thread].append(function)
            rows.append([0, RANK, thread, 0, function, now_us])
        elif opened[thread] and move == "return":
            rows.append([0, RANK, thread, 1, opened[thread].pop(), now_us])
        elif opened[thread]:
            opened[thread].pop()
    ends = itertools.accumulate(lengths)
    steps = [rows[begin:end] for begin, end in itertools.pairwise([0, *ends])]
    numbered = [
        some
        for some in zip(itertools.accumulate(length % 2 + 1 for length in lengths), steps, strict=False)
        if some[1]
    ]
    check((TraceStep(n, np.array(some, np.uint64), *NO_ROWS) for n, some in numbered), made_names())


@pytest.mark.compiled
def test_times_of_a_recorded_trace_add_up(real_traces: Path) -> None:
    for stream in find_recorded([str(real_traces / "heat4" / "*.bp")]):
        with StreamReader(stream.path, "BPFile") as reader:
            check(steps_of(reader), reader.names, stream.rank)


def steps_of(reader: StreamReader) -> Iterator[TraceStep]:
    while isinstance(step := reader.next_step(1.0), TraceStep):
        yield step


def check(steps: Iterable[TraceStep], names: StreamNames, rank: int = RANK) -> None:
    stacks, paths = CallStacks(rank), CallPaths()
    first_us: dict[int, int] = {}
    last_us: dict[int, int] = {}
    by_step_us = 0
    for number, step in enumerate(steps):
        stacks.build(step, names)
        paths.read(stacks, UsualRuntimes(False))
        by_step_us += sum(paths.spent_us(names))
        if number % 3 == 0:
            paths.hand_out()
        for thread, time_us in step.events[:, [2, 5]].tolist():
            first_us.setdefault(thread, time_us)
            last_us[thread] = time_us
    spent_us = float(paths.times()["exclusive_us"].sum())
    span_us = sum(last_us[thread] - first_us[thread] for thread in first_us)
    assert by_step_us == spent_us, "the time of each step is that of all calls"
    assert math.isclose(spent_us + stacks.gap_us, span_us, rel_tol=1e-3), (spent_us, span_us)
