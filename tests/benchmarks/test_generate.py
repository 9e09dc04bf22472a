"""The made-up trace of the benchmarks: its shape, its nesting, and that it is the same each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.generate import HARD, SIMPLE, Shape, SyntheticTrace, steps_of, write_trace
from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.calls.record import call_id
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import EventType, TraceStep

ROWS = 5_000


@pytest.fixture(scope="module")
def steps() -> list[TraceStep]:
    return list(steps_of(SyntheticTrace(ROWS), 20))


@pytest.fixture(scope="module")
def hard_steps() -> list[TraceStep]:
    return list(steps_of(SyntheticTrace(ROWS, shape=HARD), 60))


def test_rows_are_shared_out_as_said(steps: list[TraceStep]) -> None:
    assert {(len(s.events), len(s.comms), len(s.counters)) for s in steps} == {(4_000, 600, 400)}


def test_time_never_runs_backwards(steps: list[TraceStep], hard_steps: list[TraceStep]) -> None:
    for made in (steps, hard_steps):
        for array, column in (("events", 5), ("comms", 7), ("counters", 5)):
            times = np.concatenate([getattr(step, array)[:, column] for step in made]).astype(np.int64)
            assert (np.diff(times) >= 0).all()


def nest(steps: list[TraceStep], shape: Shape) -> tuple[int, int, int]:
    """Check that calls nest below one root per thread: deepest level, number of functions, of recursions."""
    stacks: list[list[int]] = [[] for _ in range(shape.threads)]
    deepest = recursions = 0
    for _, _, thread, kind, timer, _ in np.concatenate([step.events for step in steps]).tolist():
        stack = stacks[thread]
        if kind == EventType.ENTRY:
            recursions += bool(stack) and stack[-1] == timer
            stack.append(timer)
            deepest = max(deepest, len(stack) - 1)
        else:
            assert stack.pop() == timer
        assert stack[0] == 0
    return deepest, len(np.unique(np.concatenate([step.events[:, 4] for step in steps]))), recursions


def test_calls_nest_below_one_root_and_use_all_functions(steps: list[TraceStep]) -> None:
    assert nest(steps, SIMPLE) == (SIMPLE.depth, SIMPLE.functions + 1, 0)


def test_other_shapes_have_threads_depth_and_recursion(hard_steps: list[TraceStep]) -> None:
    deepest, functions, recursions = nest(hard_steps, HARD)
    assert (len(SyntheticTrace(ROWS, shape=HARD).names.timers), deepest) == (1 + HARD.functions, HARD.depth)
    assert functions > 0.5 * HARD.functions
    entries = sum(int((step.events[:, 3] == EventType.ENTRY).sum()) for step in hard_steps)
    assert 0.15 * entries < recursions < 0.25 * entries


def test_same_seed_same_trace() -> None:
    def events(seed: int) -> bytes:
        return SyntheticTrace(ROWS, seed).next_step().events.tobytes()

    assert events(3) == events(3)
    assert events(3) != events(4)


def test_a_reader_gets_what_was_made(tmp_path: Path, steps: list[TraceStep]) -> None:
    path = tmp_path / "made.bp"
    trace = SyntheticTrace(ROWS)
    injected = write_trace(path, trace, 2)
    reader = StreamReader(path, "BPFile")
    for made in steps[:2]:
        read = reader.next_step(1.0)
        assert isinstance(read, TraceStep)
        assert np.array_equal(read.events, made.events)
        assert np.array_equal(read.comms, made.comms)
        assert np.array_equal(read.counters, made.counters)
    assert reader.names.timers == SyntheticTrace(ROWS).names.timers
    reader.close()
    assert injected == {call_id(0, 0, step, row) for step, row in trace.injected}


def test_the_analysis_finds_what_was_injected_once_it_knows_the_functions() -> None:
    trace = SyntheticTrace(ROWS)
    analysis = StreamAnalysis(StreamIdentity(0, 0, "node"), AnalysisConfig())
    flagged = set()
    for step in steps_of(trace, 40):
        packed = analysis.analyse(step, trace.names).records
        records = unpack(packed, analysis.health("reading"), "sstd")
        flagged |= {r.id for r in records if r.label is Label.ANOMALY and 20 <= r.step < 39}
    injected = {call_id(0, 0, step, row) for step, row in trace.injected if 20 <= step < 39}
    assert len(injected) > 20
    assert len(flagged & injected) >= 0.95 * len(injected)
    assert len(flagged - injected) <= 0.05 * len(injected) + 2
