"""Traces of other tools, through the whole of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from chimbuko.provenance.incidents.incidentlist import Incidents, IncidentSummary
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Run, Start
from tests.places import DATA

TRAINING = DATA / "kineto"


def incidents_of(run: Run) -> list[IncidentSummary]:
    """The costliest first."""
    with open_run(RunDirectory(run.folder)) as provenance:
        return Incidents(provenance.reader).page(limit=100).incidents


def test_each_straggler_of_a_training_is_an_incident(start: Start) -> None:
    """Of PyTorch, recorded with its profiler: the rank that was late, what it did, and who waited."""
    run = start("--trace", TRAINING / "rank*.json.gz", "--agents", "2")
    assert run.end() == 0, run.output
    assert "Problem" not in run.output
    found = incidents_of(run)
    for delay in json.loads((TRAINING / "truth.json").read_text()):
        of_delay = [
            one for one in found[:3] if (one.rank, one.function) == (delay["rank"], delay["function"])
        ]
        assert len(of_delay) == 1, (delay, found)
        (incident,) = of_delay
        assert incident.ranks == 4, "three waited for it"
        assert incident.begin_us <= delay["begin_us"] and delay["end_us"] <= incident.end_us
        assert "waited" in incident.sentence and "gloo:all_reduce" in incident.sentence


def test_delays_on_a_gpu_and_before_it_are_the_first_incidents(start: Start) -> None:
    """Of PyTorch on an H100: what nobody would find by the usual runtimes of the kernels alone."""
    run = start("--trace", DATA / "kineto-gpu" / "gpu.pt.trace.json.gz")
    assert run.end() == 0, run.output
    assert "Problem" not in run.output
    found = [(one.function, one.kind) for one in incidents_of(run)[:9]]
    assert found == [
        *[("load_batch", "own code")] * 2,
        # Kernels that are seldom launched.
        *[("cudaStreamSynchronize", "waited for GPU")] * 3,
        *[("Memcpy HtoD (Pageable -> Device)", "own code")] * 2,
        *[("cudaStreamSynchronize", "waited for GPU")] * 2,
    ]


def test_a_trace_that_is_none_leaves_no_run(start: Start, tmp_path: Path) -> None:
    trace = tmp_path / "broken.json"
    trace.write_text('[{"ph": "X", "name": "f"}, {"ph')
    run = start("--trace", trace)
    assert run.end() == 3
    (complaint,) = run.lines
    assert complaint.startswith(f"chimbuko: {trace}: there are no calls in it (it ends within")
    assert not run.folder.exists()


def test_more_agents_than_processes(start: Start, tmp_path: Path) -> None:
    trace = tmp_path / "trace.pfw"
    trace.write_text('[{"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 5, "dur": 1},\n')
    run = start("--trace", trace, "--agents", "2")
    assert run.end() == 2
    assert run.lines == ["chimbuko: --agents 2: there are only 1 stream"]
    assert not run.folder.exists()


PROGRAM = """
import json, os, sys, time

with open(sys.argv[1], "w") as file:
    file.write("[")
    for number in range(150):
        for phase in "BE":
            here = {"pid": os.getpid(), "tid": os.getpid(), "ts": time.time_ns() / 1000}
            file.write(json.dumps({"name": "work", "cat": "app", "ph": phase} | here) + ",\\n")
            file.flush()
            time.sleep((0.4 if number == 120 else 0.01) if phase == "B" else 0.0)
sys.exit(7)
"""


def test_a_trace_is_analysed_while_it_is_written(start: Start, tmp_path: Path) -> None:
    """And the program's exit code is passed on, through both."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    follow = [sys.executable, "-m", "chimbuko", "follow", "--trace", tmp_path / "*.pfw", "--"]
    run = start(
        "--no-dashboard", "--period", "0.2", "--", *follow, sys.executable, program, tmp_path / "t.pfw"
    )
    assert run.end() == 7, run.output
    (health,) = run.health
    assert (health.calls, health.state) == (150, "ended")
    worst = max(run.anomalies, key=lambda call: call.severity_us)
    assert worst.function == "work [app]"
    assert worst.inclusive_us >= 400_000
    assert incidents_of(run)[0].call_id == worst.id
