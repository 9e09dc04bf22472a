"""Several programs, and several instances of one program, in one run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.calldata import no_loss
from tests.instrument.tracer.traced_program import environment
from tests.integration.conftest import STAND_IN, Run, Start
from tests.thorough import first

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
    """Calls of ``work`` per program."""
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
    assert calls == {"simulation": CALLS, "worker": 2 * CALLS}
    assert no_loss(run.output)


TAU = " ".join(map(str, (*STAND_IN, "-T", "mpi,pthread", "-adios2_trace")))


@pytest.mark.thorough
@pytest.mark.parametrize("transport", first(1, ["files", "sst"]))
def test_a_program_under_tau_that_runs_again_and_again(transport: str, tmp_path: Path, start: Start) -> None:
    """All write their streams under the same paths, and each run has another number of ranks."""
    rank = f"env OMPI_COMM_WORLD_RANK=$r {TAU} sleep 1.5"
    script = f"for ranks in '0 1' 0 '0 1 2'; do for r in $ranks; do {rank} & done; wait; done; exit 3"
    options = ["--transport", transport, "--period", "0.2", "--no-dashboard"]
    run = start(*options, "--", *shell(tmp_path, script))
    assert run.end() == 3, run.output
    assert streams(run) == {("sleep", rank) for rank in range(6)}
    assert "several programs" not in run.output and "Problem" not in run.output
    # Over SST a reader may come later than a period, on a busy machine.
    assert no_loss(run.output) or transport == "sst", run.output
    assert [line for line in run.lines if "started again" in line] == [
        "chimbuko: sleep was started again: its ranks count from 2 on",
        "chimbuko: sleep was started again: its ranks count from 3 on",
    ]
    calls = [stream.calls for stream in run.health]
    assert min(calls) > 100 and (transport == "sst" or max(calls) < 2 * min(calls))


@pytest.mark.thorough
def test_two_programs_under_one_name_at_the_same_time_are_reported(tmp_path: Path, start: Start) -> None:
    script = f"{TAU} sleep 3 & sleep 1; {TAU} sleep 1; wait"
    run = start("--period", "0.2", "--no-dashboard", "--", *shell(tmp_path, script))
    assert run.end() == 0, run.output
    run.wait_for_line("Problem: several programs write the stream of sleep, rank 0, at the same time")


@pytest.mark.parametrize("transport", first(1, ["files", "sst"]))
def test_program_that_runs_several_times_is_several_ranks(
    transport: str, programs: Path, start: Start
) -> None:
    options = ["--transport", transport, "--period", "0.05", "--no-dashboard"]
    script = f"for i in 1 2 3; do {TRACE} worker.py {LIVE_S}; done; {TRACE} simulation.py {LIVE_S}"
    run = start(*options, "--", *shell(programs, script))
    assert run.end() == 0, run.output
    assert streams(run) == {("worker", 0), ("worker", 1), ("worker", 2), ("simulation", 0)}
    assert "several programs" not in run.output
    assert work_calls(run) == {"worker": 3 * CALLS, "simulation": CALLS}
    assert no_loss(run.output)


@pytest.mark.thorough
def test_ranks_of_a_program_that_mpirun_starts_twice_follow_each_other(programs: Path, start: Start) -> None:
    mpirun = Path(sys.executable).with_name("mpirun")
    if not mpirun.exists():
        pytest.skip(f"no {mpirun}")
    script = f"for i in 1 2; do {mpirun} -n 2 {TRACE} worker.py {LIVE_S}; done"
    run = start("--period", "0.05", "--no-dashboard", "--", *shell(programs, script))
    assert run.end() == 0, run.output
    assert streams(run) == {("worker", rank) for rank in range(4)}
    assert work_calls(run) == {"worker": 4 * CALLS}


CHILDREN = f"""
import multiprocessing, subprocess, sys

def serve(method):
    process = multiprocessing.get_context(method).Process(target=work)
    process.start()
    process.join()

def work():
    subprocess.run([sys.executable, "worker.py", "{LIVE_S}"])

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        serve(method)
"""


@pytest.mark.thorough
def test_children_and_grandchildren_are_ranks_of_their_program(programs: Path, start: Start) -> None:
    (programs / "parent.py").write_text(CHILDREN)
    script = f"{TRACE} parent.py; exit 3"
    run = start("--period", "0.05", "--no-dashboard", "--", *shell(programs, script))
    assert run.end() == 3, run.output
    assert streams(run) == {("parent", rank) for rank in range(7)}
    # In each grandchild, and once in each child, of which the first on each rank is not learned from.
    assert work_calls(run) == {"parent": 3 * CALLS}
    assert no_loss(run.output)


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
    assert work_calls(run) == {"simulation": CALLS, "worker": 2 * CALLS}
