"""Scenarios that really run: programs under our tracer, streams over SST, agents, server and store.

Three of the injections, with all times about twenty times shorter; and a recorded trace fed to readers as
if it ran now, whose flags are compared with those in lockstep.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.query.filters import CallSummary
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from evaluation import recorded
from evaluation.injections import every
from evaluation.score import FROM_CALL, f1_of_sets
from evaluation.tables import ResultTable, number
from examples.findings import all_anomalies
from examples.truth import match, read_truth

WORKER = Path(__file__).parent / "worker.py"
REPLAY_PACE = 2.0
AGENTS = 4
PERIOD_S = 0.5


@dataclass(frozen=True)
class LiveProgram:
    """Processes that each do the same: one per (program, rank)."""

    processes: tuple[tuple[str, int], ...]
    cycles: int
    modes_ms: tuple[float, ...]
    delayed_ms: float
    delayed: tuple[int, ...]


PROGRAMS = {
    "func_multimodal": LiveProgram(
        tuple(("multimodal", rank) for rank in range(4)), 200, (10.0, 20.0), 500.0, tuple(every(30, 200))
    ),
    "simple_workflow": LiveProgram(
        (("first", 0), ("second", 1)), 3000, (2.0,), 20.0, tuple(every(300, 3000))
    ),
    "python_hello": LiveProgram((("hello", 0),), 100, (30.0,), 1000.0, (40, 80)),
}


@dataclass(frozen=True)
class LiveResult:
    """What a real run found."""

    scenario: str
    delays: int
    found: int
    settled: int
    """Delays from the function's 50th call on."""
    settled_found: int
    flags: int
    lockstep_agreement: float
    """F1 with the flags in lockstep; undefined for what never ran before."""

    def as_json(self) -> dict[str, Any]:
        """All counts."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def measure(name: str, tracing: Sequence[str] = ()) -> LiveResult:
    """Run one of the programs with the default detector, and look for its delays.

    Parameters
    ----------
    tracing
        Options of ``chimbuko trace``.
    """
    program = PROGRAMS[name]
    with tempfile.TemporaryDirectory(prefix="chimbuko-detection-") as temporary:
        folder = Path(temporary)
        commands = [
            _command(program, own, rank, folder / f"truth.{own}.{rank}.txt", folder, tracing)
            for own, rank in program.processes
        ]
        together = " & ".join(shlex.join(command) for command in commands)
        anomalies = _run(folder / "run", "--", "sh", "-c", f"{together} & wait")
        matched = match(read_truth(sorted(folder.glob("truth.*"))), anomalies)
    # All processes advance alike: so many calls of the function have been before.
    is_settled = [delay.index * len(program.processes) >= FROM_CALL for delay, _ in matched]
    is_found = [call is not None for _, call in matched]
    return LiveResult(
        name,
        delays=len(matched),
        found=sum(is_found),
        settled=sum(is_settled),
        settled_found=sum(found and settled for found, settled in zip(is_found, is_settled, strict=True)),
        flags=len(anomalies),
        lockstep_agreement=float("nan"),
    )


def measure_replay(trace: Path) -> LiveResult:
    """Replay a recorded trace over SST to four agents with the default detector."""
    pattern = str(trace / "*.bp")
    with tempfile.TemporaryDirectory(prefix="chimbuko-detection-") as temporary:
        words = ("--replay", pattern, "--pace", f"{REPLAY_PACE:g}", "--agents", str(AGENTS))
        anomalies = _run(Path(temporary) / "run", *words)
    in_lockstep = {
        call.id for call in recorded.analyse(find_recorded([pattern]), AnalysisConfig(), 1).anomalies()
    }
    matched = match(read_truth(sorted(trace.glob("truth*.txt"))), anomalies)
    found = sum(call is not None for _, call in matched)
    common = len(in_lockstep & {call.id for call in anomalies})
    return LiveResult(
        f"{trace.name}, replayed",
        delays=len(matched),
        found=found,
        settled=0,
        settled_found=0,
        flags=len(anomalies),
        lockstep_agreement=f1_of_sets(common, len(in_lockstep), len(anomalies)),
    )


def table(results: Iterable[LiveResult]) -> ResultTable:
    """One row per run."""
    columns = ("scenario", "found", "found from 50th call on", "flags", "F1 with lockstep")
    rows = [
        (
            one.scenario,
            f"{one.found}/{one.delays}",
            f"{one.settled_found}/{one.settled}" if one.settled else "-",
            str(one.flags),
            number(one.lockstep_agreement),
        )
        for one in results
    ]
    return ResultTable("Real runs", columns, rows)


def _command(
    program: LiveProgram, own: str, rank: int, truth: Path, folder: Path, tracing: Sequence[str]
) -> list[str]:
    """One process; a program is named as its script is."""
    script = shutil.copy(WORKER, folder / f"{own}.py")
    words = [sys.executable, "-m", "chimbuko", "trace", *tracing, "--rank", str(rank), str(script)]
    words += ["--rank", str(rank), "--cycles", str(program.cycles), "--truth", str(truth)]
    words += ["--modes-ms", *map(str, program.modes_ms), "--delayed-ms", str(program.delayed_ms)]
    return [*words, "--delayed", *map(str, program.delayed)]


def _run(folder: Path, *words: str) -> list[CallSummary]:
    """All anomalies of one ``chimbuko run``."""
    command = [sys.executable, "-m", "chimbuko", "run", "--output", str(folder), "--no-dashboard"]
    # What a live run flags; when it has ended, delays that come again and again are findings, and no flags.
    command += ["--period", str(PERIOD_S), "--no-relabel", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{shlex.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    with open_run(RunDirectory(folder)) as provenance:
        return all_anomalies(provenance)
