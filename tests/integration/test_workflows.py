"""Several programs, and several instances of one program, in one run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.provenance.queries import open_run
from chimbuko.rundir import RunDirectory
from tests.integration.conftest import Run, Start
from tests.thorough import first
from tests.tracer.traced_program import environment

CALLS = 300
PROGRAM = f"""
import sys, time

def work():
    time.sleep(float(sys.argv[1]))

for _ in range({CALLS}):
    work()
"""
LIVE_S, RECORDED_S = "0.01", "0.0001"
"""Length of a call."""
TRACE = f"{sys.executable} -m chimbuko trace"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Folder with two programs without MPI: ``simulation.py`` and ``worker.py``."""
    for name in ("simulation", "worker"):
        (tmp_path / f"{name}.py").write_text(PROGRAM)
    return tmp_path


def shell(folder: Path, script: str) -> list[str]:
    return ["sh", "-c", f"cd {folder}; {script}"]


def streams(run: Run) -> set[tuple[str, int]]:
    """Program and rank of all streams that were read to their end."""
    with open_run(RunDirectory(run.folder)) as provenance:
        names = provenance.programs()
        return {(names[s.program], s.rank) for s in provenance.health() if s.state == "ended"}


def work_calls(run: Run) -> dict[str, int]:
    """Learned calls of ``work`` per program."""
    with open_run(RunDirectory(run.folder)) as provenance:
        names = provenance.programs()
        statistics = provenance.function_statistics()
    return {names[f.program]: f.calls for f in statistics if f.name.startswith("work [")}


def test_live_workflow(programs: Path, start: Start) -> None:
    script = (
        f"{TRACE} simulation.py {LIVE_S} & "
        f"TAU_ADIOS2_FILENAME=$TAU_ADIOS2_FILENAME.0 {TRACE} worker.py {LIVE_S} & "
        f"TAU_ADIOS2_FILENAME=$TAU_ADIOS2_FILENAME.1 {TRACE} worker.py {LIVE_S} & "
        "wait; exit 3"
    )
    run = start("--period", "0.05", "--no-dashboard", "--", *shell(programs, script))
    assert run.end() == 3, run.output
    assert streams(run) == {("simulation", 0), ("worker", 0), ("worker", 1)}
    assert "several programs" not in run.output
    calls = work_calls(run)
    # Two instances are two ranks of one program, which share their statistics.
    # The first call of each rank pays for loading and is not learned from.
    assert calls == {"simulation": CALLS - 1, "worker": 2 * (CALLS - 1)}
    assert "Lost: nothing" in run.output


@pytest.mark.parametrize("transport", first(1, ["files", "sst"]))
def test_two_programs_under_one_name_are_reported(transport: str, programs: Path, start: Start) -> None:
    worker = f"{TRACE} worker.py {LIVE_S}"
    options = ["--transport", transport, "--no-dashboard"]
    run = start(*options, "--", *shell(programs, f"{worker}; {worker}"))
    assert run.end() == 0, run.output
    assert streams(run) == {("worker", 0)}
    run.wait_for_line("Problem: several programs write the stream of worker, rank 0")


@pytest.fixture
def recorded(programs: Path) -> Path:
    """The programs' recorded streams: one of each in ``first``, another worker in ``second``."""
    for folder, name in (("first", "simulation"), ("first", "worker"), ("second", "worker")):
        (programs / folder).mkdir(exist_ok=True)
        subprocess.run(
            [*TRACE.split(), f"{name}.py", RECORDED_S],
            cwd=programs,
            env=environment(TAU_ADIOS2_FILENAME=str(programs / folder / "tau-metrics")),
            check=True,
        )
    return programs


def test_recorded_workflow(recorded: Path, start: Start) -> None:
    run = start("--trace", recorded / "first" / "*.bp", "--trace", recorded / "second" / "*.bp")
    assert run.end() == 0, run.output
    assert streams(run) == {("simulation", 0), ("worker", 0), ("worker", 1)}
    assert sum(sum(stream.losses.values()) for stream in run.health) == 0
    # The first call of each rank pays for loading and is not learned from.
    assert work_calls(run) == {"simulation": CALLS - 1, "worker": 2 * (CALLS - 1)}
