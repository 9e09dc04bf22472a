"""Delays of programs that really run, found through annotations alone: one execution, recorded in two ways.

The tracer records all functions into a stream, and the annotation of one function writes a trace file beside
it. Both are analysed with streams in lockstep: whatever else the machine does, all times are those of the
same calls, and no model is on its way.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chimbuko.capture.formats.conversion import convert
from chimbuko.capture.trace.discovery import StreamName, find_recorded
from chimbuko.core.config import AnalysisConfig
from chimbuko.instrument.annotations.options import VARIABLE
from evaluation.processes import PERIOD_S, PROGRAMS, WORKER, LiveProgram
from evaluation.recorded import analyse
from evaluation.tables import ResultTable
from examples.truth import InjectedDelay, match, read_truth

PERIOD_US = round(PERIOD_S * 1e6)


@dataclass(frozen=True)
class AnnotatedResult:
    """Of one scenario."""

    scenario: str
    delays: int
    by_tracer: int
    by_annotations: int
    by_both: int

    def as_json(self) -> dict[str, Any]:
        """All counts."""
        return asdict(self)


def measure(name: str) -> AnnotatedResult:
    """Let the processes of one of ``PROGRAMS`` run, and look for their delays."""
    program = PROGRAMS[name]
    with tempfile.TemporaryDirectory(prefix="chimbuko-detection-") as temporary:
        folder = Path(temporary)
        traced, annotated = _recorded_twice(program, folder)
        truth = read_truth(sorted(folder.glob("truth.*")))
        by_tracer, by_annotations = _found(traced, truth), _found(annotated, truth)
    both = len(by_tracer & by_annotations)
    return AnnotatedResult(name, len(truth), len(by_tracer), len(by_annotations), both)


def table(results: Iterable[AnnotatedResult]) -> ResultTable:
    """One row for each scenario."""
    columns = ("scenario", "delays", "found by the tracer", "through annotations", "by both")
    rows = [
        (one.scenario, *map(str, (one.delays, one.by_tracer, one.by_annotations, one.by_both)))
        for one in results
    ]
    return ResultTable("One execution, recorded by the tracer and through annotations", columns, rows)


def _recorded_twice(program: LiveProgram, folder: Path) -> tuple[list[StreamName], list[StreamName]]:
    """Streams of the tracer, and those made of the trace files."""
    text = WORKER.read_text().replace("\ndef work(", "\n@critical_path\ndef work(")
    text = text.replace(
        "\nimport argparse", "\nfrom chimbuko.annotations import critical_path\nimport argparse"
    )
    running, files = [], []
    for own, rank in program.processes:
        script = folder / f"{own}.py"
        script.write_text(text)
        words = ["--rank", str(rank), "--cycles", str(program.cycles), "--truth", f"truth.{own}.{rank}.txt"]
        words += ["--modes-ms", *map(str, program.modes_ms), "--delayed-ms", str(program.delayed_ms)]
        words += ["--delayed", *map(str, program.delayed)]
        environment = dict(os.environ)
        environment |= {VARIABLE: f"name=rank{rank}:log-filename-include=name"}
        environment |= {"TAU_ADIOS2_PERIOD": str(PERIOD_US), "TAU_ADIOS2_ENGINE": "BPFile"}
        trace = [sys.executable, "-m", "chimbuko", "trace", "--rank", str(rank), str(script)]
        running.append(subprocess.Popen([*trace, *words], cwd=folder, env=environment))
        files.append(folder / f"perfflow.array.rank{rank}.pfw")
    codes = [process.wait() for process in running]
    if any(codes):
        raise RuntimeError(f"{WORKER} failed")
    return find_recorded([str(folder / "*.bp")]), convert(files, folder / "streams", "all", PERIOD_US).streams


def _found(streams: list[StreamName], truth: list[InjectedDelay]) -> set[tuple[int, int]]:
    """Rank and number of the delays that are flagged."""
    anomalies = analyse(streams, AnalysisConfig(period_us=PERIOD_US), 1).anomalies()
    return {(delay.rank, delay.index) for delay, call in match(truth, anomalies) if call is not None}
