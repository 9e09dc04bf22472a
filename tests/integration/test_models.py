"""Models from run to run, settings of single functions, and labels given again, in runs of a made trace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.detectors.offline import FinalJudge
from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.model import load_model
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Run

RANKS = 2
STEPS = 30
CALLS = 120
FUNCTIONS = {1: "solve", 2: "norm", 3: "MPI_Send()"}
MEANS_US = {1: 6000.0, 2: 2000.0, 3: 1000.0}
DELAYED_SHARE = 0.01


def write_trace(folder: Path) -> Path:
    """Two ranks, a step each second; some calls take 3 to 20 times as long."""
    names = StreamNames(timers={0: "main", **FUNCTIONS}, program="made")
    for rank in range(RANKS):
        random = np.random.default_rng(rank)
        with StreamWriter(folder / f"tau-metrics-made-{rank}.bp", "BP4") as writer:
            for step in range(STEPS):
                time, rows = 1_000_000 * (step + 1), []
                for call in range(CALLS):
                    timer = 1 + call % 3
                    runtime_us = random.gamma(8.0, MEANS_US[timer] / 8.0)
                    runtime_us *= random.uniform(3.0, 20.0) if random.random() < DELAYED_SHARE else 1.0
                    rows += [[0, rank, 0, 0, timer, time], [0, rank, 0, 1, timer, time + int(runtime_us)]]
                    time += int(runtime_us) + 1
                writer.write_step(
                    np.array(rows, np.uint64), np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64), names
                )
    return folder


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_trace(tmp_path_factory.mktemp("made")) / "*.bp")


@pytest.fixture(scope="module")
def first(trace: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Learns; leaves a model."""
    folder = tmp_path_factory.mktemp("first")
    run = Run(folder / "run", "--trace", trace, "--save-model", folder / "saved.model")
    assert run.end() == 0, run.output
    return run


def test_a_recorded_trace_has_its_programs_in_the_list_of_runs(first: Run) -> None:
    assert RunDirectory(first.folder).read_programs() == {"made": 0}


def records_of(run: Run) -> list[CallRecord]:
    with open_run(RunDirectory(run.folder)) as provenance:
        found = provenance.calls.page(CallFilter(label=None), limit=10_000).calls
        return [provenance.calls.record(call.id) for call in found]


def all_calls(trace: str) -> dict[str, list[tuple[str, float]]]:
    """By function, id and exclusive runtime of each call but the first of each thread."""
    found: dict[str, list[tuple[str, float]]] = {}
    for stream in find_recorded([trace]):
        stacks = CallStacks(stream.rank)
        with StreamReader(stream.path, "BPFile") as reader:
            while isinstance(step := reader.next_step(1.0), TraceStep):
                stacks.build(step, reader.names)
                calls = stacks.calls[: stacks.count]
                for call in calls[(calls["exit"] > 0) & (calls["doubts"] == 0)]:
                    name = reader.names.timers[int(call["function"])]
                    exclusive_us = float(call["exit"] - call["entry"] - call["child_us"])
                    place = f"0:{stream.rank}:{call['step']}:{call['row']}"
                    found.setdefault(name, []).append((place, exclusive_us))
    return found


@pytest.mark.thorough
def test_a_run_leaves_the_model_that_it_was_asked_for(first: Run) -> None:
    saved = first.folder.parent / "saved.model"
    assert saved.read_bytes() == RunDirectory(first.folder).model_path.read_bytes()
    model = load_model(saved, AnalysisConfig())
    assert sorted(model.functions) == sorted(("made", name) for name in FUNCTIONS.values())
    calls = dict(zip(model.functions, model.table[:, 0].tolist(), strict=True))
    # The first call of each function on each thread teaches nothing.
    assert set(calls.values()) == {RANKS * STEPS * CALLS / 3}


def test_a_frozen_run_flags_what_the_loaded_model_flags(first: Run, trace: str, tmp_path: Path) -> None:
    model_path = first.folder.parent / "saved.model"
    copy = tmp_path / "again.model"
    run = Run(
        tmp_path / "run", "--trace", trace, "--load-model", model_path, "--freeze", "--save-model", copy
    )
    assert run.end() == 0, run.output
    judge = FinalJudge(load_model(model_path, AnalysisConfig()), AnalysisConfig())
    expected = set()
    for name, calls in all_calls(trace).items():
        runtimes_us = np.array([runtime_us for _, runtime_us in calls])
        said = judge.judge("made", name, runtimes_us, runtimes_us)
        assert said is not None
        expected |= {calls[at][0] for at in np.flatnonzero(said.is_anomaly)}
    assert run.ids == expected
    assert len(expected) > 20
    # The early delays, before the first run knew enough, are among them; and nothing was learned.
    assert 0 in {call.step for call in records_of(run)}
    assert copy.read_bytes() == model_path.read_bytes()
    with open_run(RunDirectory(run.folder)) as provenance:
        assert {f.calls for f in provenance.function_statistics()} == {RANKS * STEPS * CALLS / 3}


def test_settings_of_functions_and_steps_hold_in_a_run(trace: str, tmp_path: Path) -> None:
    """One function ignored, one with a threshold beyond all; records of some steps, labelled again."""
    settings = tmp_path / "settings.toml"
    settings.write_text('ignore = ["nor*"]\nrecord_to_step = 20\n')
    run = Run(
        tmp_path / "run",
        *("--trace", trace, "--config", settings, "--threshold-of", "MPI_*=60", "--record-steps", "5:20"),
        "--json",
    )
    assert run.end() == 0, run.output
    records = records_of(run)
    assert {record.function for record in records} == {"solve"}
    assert {record.step for record in records} <= set(range(5, 21))
    with open_run(RunDirectory(run.folder)) as provenance:
        counted = {f.name: (f.calls, f.anomalies) for f in provenance.function_statistics()}
        steps = provenance.steps.counts([(0, 0), (0, 1)])
    assert counted["norm"] == (RANKS * STEPS * CALLS / 3, 0)
    assert counted["MPI_Send()"][1] == 0 < counted["solve"][1]
    assert len(steps) == RANKS * STEPS
    assert sum(step.anomalies for step in steps) == counted["solve"][1]
    assert any(step.anomalies for step in steps if not 5 <= step.step <= 20)
    # Labelled by the final model, a call has the expected runtime of that, whenever it was recorded.
    assert len({record.expected_us for record in records}) == 1
    again = relabel(run.folder)
    assert (again["calls"], again["now_normal"], again["now_abnormal"]) == (len(records), 0, 0)


def test_labels_are_given_again_to_a_run_that_has_ended(first: Run, tmp_path: Path) -> None:
    before = {record.id: record for record in records_of(first)}
    relabelled = relabel(first.folder, "--delete")
    after = {record.id: record for record in records_of(first)}
    assert relabelled["calls"] == len(before)
    assert relabelled["deleted"] == relabelled["now_normal"] == len(before) - len(after)
    judge = FinalJudge(load_model(RunDirectory(first.folder).model_path, AnalysisConfig()), AnalysisConfig())
    for record in after.values():
        runtime_us = np.array([float(record.exclusive_us)])
        said = judge.judge("made", record.function, runtime_us, runtime_us)
        assert said is not None and bool(said.is_anomaly[0]) == (record.label == "anomaly")
        assert record.score == pytest.approx(float(said.score[0]))


def relabel(folder: Path, *options: str) -> dict[str, int]:
    command = [sys.executable, "-m", "chimbuko", "runs", "relabel", str(folder), "--json", *options]
    answer: dict[str, int] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return answer
