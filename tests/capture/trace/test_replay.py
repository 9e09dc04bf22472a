"""Replay: the same steps again, when they are due."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from chimbuko.capture.trace.replay import Pace, Replayed, replay_stream, start_of
from chimbuko.core.traceschema import TraceStep
from tests.capture.trace.whole_streams import assert_equal, random_stream, read_stream, reading, write_stream

FAST = Pace(math.inf, 0)


def one_row_step(time_us: int) -> TraceStep:
    def rows(columns: int) -> np.ndarray:
        return np.empty((0, columns), np.uint64)

    return TraceStep(0, np.array([[0, 0, 0, 0, 0, time_us]], np.uint64), rows(8), rows(6))


def test_steps_are_due_at_the_traces_own_times() -> None:
    assert Pace(1.0, 1_000_000).due_s(one_row_step(3_500_000)) == 2.5
    assert Pace(10.0, 1_000_000).due_s(one_row_step(3_500_000)) == 0.25
    assert Pace(math.inf, 1_000_000).due_s(one_row_step(3_500_000)) == 0
    assert Pace(1.0, 1_000_000).due_s(one_row_step(900_000)) == 0
    # A damaged time must not hold up the replay until it comes.
    assert Pace(1.0, 1_000_000).due_s(one_row_step(2**63)) == 0


def test_start_is_the_time_of_the_first_event(real_traces: Path) -> None:
    path = next(real_traces.rglob("*-0.bp"))
    assert start_of(path) == read_stream(path, "BPFile")[0].events[0, -1]


def test_stream_without_events_has_no_start(tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_stream(path, random_stream(1, [(0, 2, 0), (0, 0, 0)]), "BP5")
    assert start_of(path) is None


def test_replay_over_sst_equals_its_source(real_traces: Path, tmp_path: Path) -> None:
    source = next(real_traces.rglob("*-1.bp"))
    target = tmp_path / source.name
    with reading([target]) as (answer,):
        done = replay_stream(source, target, "SST", FAST, None, lambda: None)
        replayed = answer.recv()
    steps = read_stream(source, "BPFile")
    assert_equal(replayed, steps)
    rows = sum(len(step.events) + len(step.comms) + len(step.counters) for step in steps)
    assert done == Replayed(source.name, len(steps), rows, "")


@pytest.mark.parametrize("engine", ["BP4", "BP5"])
def test_replay_to_a_file_equals_its_source(real_traces: Path, tmp_path: Path, engine: str) -> None:
    source = next(real_traces.rglob("*-0.bp"))
    target = tmp_path / source.name
    replay_stream(source, target, engine, FAST, None, lambda: None)
    assert_equal(read_stream(target, "BPFile"), read_stream(source, "BPFile"), with_names=engine == "BP5")


@pytest.mark.parametrize("engine", ["BP4", "BP5"])
def test_truncated_file_is_replayed_as_far_as_it_goes(tmp_path: Path, engine: str) -> None:
    source, target = tmp_path / "tau-metrics-app-0.bp", tmp_path / "to" / "tau-metrics-app-0.bp"
    target.parent.mkdir()
    steps = random_stream(2, [(400, 5, 5)] * 6)
    write_stream(source, steps, engine)
    # As an interrupted copy leaves it: the index promises more steps than the data holds.
    data = source / "data.0"
    os.truncate(data, data.stat().st_size // 2)
    done = replay_stream(source, target, "BP5", FAST, None, lambda: None)
    assert done.complaint
    assert "\n" not in done.complaint
    assert 0 < done.steps < 6
    assert_equal(read_stream(target, "BPFile"), steps[: done.steps], with_names=engine == "BP5")
