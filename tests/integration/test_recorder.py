"""``chimbuko run -- mpirun chimbuko trace ./app``: from a program in C, C++ or Fortran to flagged calls with
names, also where processes of ours are killed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from examples.truth import match, read_truth
from tests.calldata import no_loss
from tests.instrument.recorder.mpi import DEBIANS_MPICH, OPEN_MPI, WHEEL, Mpi, why_missing
from tests.instrument.recorder.streams import TRACE, drains
from tests.instrument.recorder.test_functions import PROGRAMS, compiled
from tests.integration.conftest import AGENT, Run, Start
from tests.integration.test_other_traces import incidents_of
from tests.places import EXAMPLES

DELAYS = 8
INSTRUMENTED = "-finstrument-functions"
WITHOUT_TEMPLATES = "-finstrument-functions-exclude-file-list=/usr/include"
WITHOUT_DELAYS = "-finstrument-functions-exclude-function-list=lose_time,now_us"
"""Else these are the functions that are slow."""


@pytest.mark.parametrize(
    "mpi", [WHEEL, pytest.param(OPEN_MPI, marks=pytest.mark.thorough)], ids=["mpich", "openmpi"]
)
def test_delays_of_an_mpi_program_are_found_by_name(mpi: Mpi, start: Start, tmp_path: Path) -> None:
    if reason := why_missing(mpi, "mpicc"):
        pytest.skip(reason)
    program = mpi.build(EXAMPLES / "heat_mpi.c", tmp_path / "heat_mpi", "mpicc", "-finstrument-functions")
    traced = [sys.executable, "-m", "chimbuko", "trace", program, "--seconds", "8"]
    options = ["--delays", str(DELAYS), "--seed", "5", "--truth", tmp_path]
    run = start("--", *mpi.launch(2), *traced, *options)
    assert run.end() == 0, run.output
    assert no_loss(run.output), run.output
    delays = read_truth(tmp_path.glob("truth-*.txt"))
    found = [call for _, call in match(delays, run.anomalies) if call is not None]
    print(f"{len(found)} of {len(delays)} injected delays found")
    assert len(delays) == DELAYS
    # On a machine with other work further calls are slow, and delays less rare.
    assert len(found) >= DELAYS // 4, run.output
    assert_whole(run)


def assert_whole(run: Run) -> None:
    """Nothing of its streams was lost, and all functions have names."""
    assert no_loss(run.output), run.output
    assert not re.search("^(Problem|Not recorded|Not traced):", run.output, re.MULTILINE), run.output
    for stream in run.health:
        assert (stream.state, stream.gap_steps, stream.losses) == ("ended", 0, {})
    assert not [name for _, path in run.paths for name in path if "addr=" in name or "unknown" in name]


PYTHON_DELAYS = 6
PYTHON_SOLVER = f"""
import time
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
one, total = np.ones(100), np.zeros(100)

def checkpoint(turn):
    if turn >= 60 and turn % 20 == 0 and turn // 20 % world.size == world.rank:
        time.sleep(0.3)

def combine():
    world.Allreduce(one, total)

def step(turn):
    time.sleep(0.005)
    checkpoint(turn)
    combine()

for turn in range(60 + 20 * {PYTHON_DELAYS}):
    step(turn)
"""


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="no mpi4py: pip install 'mpi4py>=4.1'")
def test_delays_of_a_python_program_are_one_incident_each_with_those_who_waited_in_mpi(
    start: Start, tmp_path: Path
) -> None:
    program = tmp_path / "solver.py"
    program.write_text(PYTHON_SOLVER)
    run = start("--", *WHEEL.launch(4), sys.executable, "-m", "chimbuko", "trace", program)
    assert run.end() == 0, run.output
    assert no_loss(run.output), run.output
    assert_whole(run)
    found = [one for one in incidents_of(run) if one.function.startswith("checkpoint [")]
    waited = [
        one for one in found if one.ranks == 4 and re.search("waited .* in MPI_Allreduce", one.sentence)
    ]
    print(f"{len(found)} of {PYTHON_DELAYS} delays found, {len(waited)} with all who waited")
    assert len(waited) >= PYTHON_DELAYS // 3, run.output


@pytest.mark.parametrize(
    ("mpi", "language"),
    [
        pytest.param(mpi, language, id=f"{language}-{mpi.name}", marks=pytest.mark.thorough)
        for mpi, language in (
            *((WHEEL, "c"), (WHEEL, "cc"), (DEBIANS_MPICH, "f90")),
            *((OPEN_MPI, "c"), (OPEN_MPI, "cc"), (OPEN_MPI, "f90")),
        )
    ],
)
def test_nine_of_ten_delays_are_found_in_each_language(
    mpi: Mpi, language: str, start: Start, tmp_path: Path
) -> None:
    compiler = {"c": "mpicc", "cc": "mpicxx", "f90": "mpif90"}[language]
    if reason := why_missing(mpi, compiler):
        pytest.skip(reason)
    source = EXAMPLES / "heat_mpi.c" if language == "c" else PROGRAMS / f"delayed.{language}"
    flags = (INSTRUMENTED, WITHOUT_TEMPLATES, WITHOUT_DELAYS, "-J", str(tmp_path))
    program = mpi.build(source, tmp_path / "program", compiler, *flags[: 5 if language == "f90" else 3])
    if language == "c":
        words = ["--seconds", "20", "--delays", "20", "--seed", "7", "--truth", str(tmp_path)]
    else:
        # All of 20 ms and more, far apart, on each rank and in both functions.
        plan = [
            f"{20 + 9 * number} {number * 7 % 4} {200 + 80 * number} {('exchange', 'relax')[number % 2]}"
            for number in range(20)
        ]
        (tmp_path / "plan").write_text("\n".join(plan) + "\n")
        words = ["1900", str(tmp_path / "plan"), str(tmp_path)]
    run = start("--", *mpi.launch(4), *TRACE, program, *words)
    assert run.end() == 0, run.output
    assert_whole(run)
    delays = read_truth(tmp_path.glob("truth-*.txt"))
    found = [call for _, call in match(delays, run.anomalies) if call is not None]
    print(f"{len(found)} of {len(delays)} injected delays found")
    assert len(delays) == 20
    assert len(found) >= 18, run.output


def started_heat(start: Start, folder: Path, seconds: int) -> Run:
    """A run of two ranks, once their streams are read."""
    program = WHEEL.build(EXAMPLES / "heat_mpi.c", folder / "heat_mpi", "mpicc", INSTRUMENTED)
    run = start("--", *WHEEL.launch(2), *TRACE, program, "--seconds", str(seconds))
    run.wait_until(lambda: sum(stream.steps for stream in run.health_so_far) >= 4)
    return run


def drains_of(run: Run) -> list[int]:
    """Processes that drain the rings of its program."""
    environment = Path(f"/proc/{run.service('heat_mpi')}/environ").read_bytes().split(b"\0")
    (prefix,) = (entry for entry in environment if entry.startswith(b"TAU_ADIOS2_FILENAME="))
    return drains(Path(os.fsdecode(prefix.partition(b"=")[2])).parent)


@pytest.mark.thorough
def test_killed_agent_costs_nothing_that_was_recorded(start: Start, tmp_path: Path) -> None:
    run = started_heat(start, tmp_path, 6)
    os.kill(run.service(AGENT), signal.SIGKILL)
    assert run.end() == 0, run.output
    assert "2 ranks, 600 iterations" in run.output
    assert no_loss(run.output), run.output
    # 14 in each iteration, two in every tenth, and nine at the beginning and the end.
    assert [stream.calls for stream in run.health] == [600 * 14 + 60 * 2 + 9] * 2


def test_killed_recorder_is_said_with_what_it_lost(start: Start, tmp_path: Path) -> None:
    run = started_heat(start, tmp_path, 6)
    for process in drains_of(run):
        os.kill(process, signal.SIGKILL)
    run.wait_for_line("is not recorded any more: the recorder beside it has died")
    assert run.end() == 0, run.output
    assert "2 ranks, 600 iterations" in run.output
    for rank in (0, 1):
        line = run.wait_for_line(f"heat_mpi, rank {rank}: ")
        (lost,) = re.findall(
            r"([\d,]+) events? of it are in no stream; the recorder beside it has died", line
        )
        assert int(lost.replace(",", "")) > 0


def test_summary_says_what_a_rank_died_in(start: Start, tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "crash.c", tmp_path / "crash", "-finstrument-functions", "-O0")
    run = start("--", sys.executable, "-m", "chimbuko", "trace", program, "segfault")
    assert run.end() == 128 + signal.SIGSEGV, run.output
    assert (
        "Died: rank 0:0 died (SIGSEGV) in main > solve > fail; backtrace: fail < solve < main" in run.output
    )


def test_summary_names_functions_that_were_left_out(start: Start, tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "tiny.c", tmp_path / "tiny", "-finstrument-functions")
    run = start("--", sys.executable, "-m", "chimbuko", "trace", program, "50")
    assert run.end() == 0, run.output
    line = run.wait_for_line("Left out: ")
    assert "of tick" in line and "-finstrument-functions-exclude-function-list=tick" in line
