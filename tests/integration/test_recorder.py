"""``chimbuko run -- mpirun chimbuko trace ./app``: from a program in C to flagged calls with names."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from examples.truth import match, read_truth
from tests.integration.conftest import Start
from tests.places import EXAMPLES
from tests.recorder.mpi import OPEN_MPI, WHEEL, Mpi, why_missing
from tests.recorder.test_functions import PROGRAMS, compiled

DELAYS = 8


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
    assert "Lost: nothing" in run.output
    delays = read_truth(tmp_path.glob("truth-*.txt"))
    found = [call for _, call in match(delays, run.anomalies) if call is not None]
    print(f"{len(found)} of {len(delays)} injected delays found")
    assert len(delays) == DELAYS
    # On a machine with other work further calls are slow, and delays less rare.
    assert len(found) >= DELAYS // 2, run.output
    for stream in run.health:
        assert (stream.state, stream.gap_steps, stream.losses) == ("ended", 0, {})


def test_summary_says_what_a_rank_died_in(start: Start, tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "crash.c", tmp_path / "crash", "-finstrument-functions", "-O0")
    run = start("--", sys.executable, "-m", "chimbuko", "trace", program, "segfault")
    assert run.end() == 128 + signal.SIGSEGV, run.output
    assert (
        "Died: rank 0:0: died (SIGSEGV) in main > solve > fail; backtrace: fail < solve < main" in run.output
    )


def test_summary_names_functions_that_were_left_out(start: Start, tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "tiny.c", tmp_path / "tiny", "-finstrument-functions")
    run = start("--", sys.executable, "-m", "chimbuko", "trace", program, "50")
    assert run.end() == 0, run.output
    line = run.wait_for_line("Left out: ")
    assert "of tick" in line and "-finstrument-functions-exclude-function-list=tick" in line
