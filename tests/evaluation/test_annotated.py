"""Delays of the programs of the detection suite are found through annotations alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.config import AnalysisConfig
from chimbuko.formats.streams.conversion import convert
from chimbuko.perfflow.options import VARIABLE
from chimbuko.trace.discovery import StreamName, find_recorded
from evaluation import processes
from evaluation.processes import PERIOD_S, WORKER, LiveProgram
from evaluation.recorded import analyse
from examples.truth import InjectedDelay, match, read_truth

ANNOTATED = ("--aspect", "__main__:work")
PERIOD_US = round(PERIOD_S * 1e6)
BY_TIMING = "func_multimodal"
"""Live, its delays become ordinary while the model is on its way: 10 to 18 are found, whatever traces it."""


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(set(processes.PROGRAMS) - {BY_TIMING}))
def test_live_as_many_as_where_all_functions_are_traced(name: str) -> None:
    traced = processes.measure(name)
    if traced.found < traced.delays - 1:
        pytest.skip("the machine is too busy for these delays to stand out, whatever traces them")
    annotated = processes.measure(name, ANNOTATED)
    assert annotated.delays == traced.delays
    assert abs(annotated.found - traced.found) <= 2
    assert abs(annotated.settled_found - traced.settled_found) <= 1


def recorded_twice(program: LiveProgram, folder: Path) -> tuple[list[StreamName], list[StreamName]]:
    """Streams of one execution: by the tracer, of all functions, and from the file of its annotations."""
    text = WORKER.read_text().replace("\ndef work(", "\n@critical_path\ndef work(")
    text = text.replace(
        "\nimport argparse", "\nfrom chimbuko.annotations import critical_path\nimport argparse"
    )
    running, files = [], []
    for own, rank in program.processes:
        script = folder / f"{own}.py"
        script.write_text(text)
        words = ["--rank", str(rank), "--cycles", str(program.cycles), "--truth", f"truth.{rank}.txt"]
        words += ["--modes-ms", *map(str, program.modes_ms), "--delayed-ms", str(program.delayed_ms)]
        words += ["--delayed", *map(str, program.delayed)]
        environment = dict(os.environ)
        environment |= {VARIABLE: f"name=rank{rank}:log-filename-include=name"}
        environment |= {"TAU_ADIOS2_PERIOD": str(PERIOD_US), "TAU_ADIOS2_ENGINE": "BPFile"}
        trace = [sys.executable, "-m", "chimbuko", "trace", "--rank", str(rank), str(script)]
        running.append(subprocess.Popen([*trace, *words], cwd=folder, env=environment))
        files.append(folder / f"perfflow.array.rank{rank}.pfw")
    assert [process.wait() for process in running] == [0] * len(running)
    return find_recorded([str(folder / "*.bp")]), convert(files, folder / "streams", "all", PERIOD_US).streams


def found(streams: list[StreamName], truth: list[InjectedDelay]) -> set[tuple[int, int]]:
    """Rank and number of the delays that are flagged, with streams in lockstep."""
    anomalies = analyse(streams, AnalysisConfig(period_us=PERIOD_US), 1).anomalies()
    return {(delay.rank, delay.index) for delay, call in match(truth, anomalies) if call is not None}


@pytest.mark.thorough
def test_the_same_delays_of_one_execution(tmp_path: Path) -> None:
    """Whatever else the machine does: all times are those of the same calls, and no model is on its way."""
    traced, annotated = recorded_twice(processes.PROGRAMS[BY_TIMING], tmp_path)
    truth = read_truth(sorted(tmp_path.glob("truth.*")))
    by_tracer, by_annotations = found(traced, truth), found(annotated, truth)
    assert len(by_tracer) > len(truth) / 2
    # Where steps begin differs, and a step is judged by what the ones before have taught.
    assert abs(len(by_annotations) - len(by_tracer)) <= 1
