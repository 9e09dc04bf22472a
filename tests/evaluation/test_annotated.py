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
FAR_OUT = "python_hello"
"""Its delays take 1 s instead of 30 ms: however busy a machine is, they stand out."""


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_delays_are_found_live() -> None:
    annotated = processes.measure(FAR_OUT, ANNOTATED)
    assert annotated.settled_found == annotated.settled > 0


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
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", processes.PROGRAMS)
def test_the_same_delays_of_one_execution(tmp_path: Path, name: str) -> None:
    """Whatever else the machine does: all times are those of the same calls, and no model is on its way."""
    program = processes.PROGRAMS[name]
    traced, annotated = recorded_twice(program, tmp_path)
    truth = read_truth(sorted(tmp_path.glob("truth.*")))
    assert len(truth) == len(program.processes) * len(program.delayed)
    by_tracer, by_annotations = found(traced, truth), found(annotated, truth)
    # Where steps begin differs, and a step is judged by what the ones before have taught.
    assert abs(len(by_annotations) - len(by_tracer)) <= 1
    if len(by_tracer) <= len(truth) / 2:
        pytest.skip("the machine is so busy that most of these delays do not stand out, whatever traces them")
