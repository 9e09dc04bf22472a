"""A workflow in a job of a real Slurm, on two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.calldata import no_loss
from tests.integration.namespaces import NotPermitted
from tests.integration.slurm import Slurm, until

pytestmark = pytest.mark.thorough

WORKFLOW = """
[analysis]
options = ["--no-dashboard", "--period", "0.2"]
[monitor]
period = "500ms"
[[task]]
name = "simulate"
command = "chimbuko trace simulation.py"
ranks = 4
nodes = 2
[[task]]
name = "left"
command = ["sh", "-c", "echo $SLURM_CPUS_PER_TASK; uname -n; touch left; until test -e right; do :; done"]
cores = 4
after = ["simulate"]
[[task]]
name = "right"
command = ["sh", "-c", "echo $SLURM_CPUS_PER_TASK; uname -n; touch right; until test -e left; do :; done"]
cores = 4
after = ["simulate"]
[[task]]
name = "states"
command = "chimbuko namespaces read workflow --form json -o states"
after = ["left", "right"]
[[task]]
name = "hardware"
command = "chimbuko namespaces read hardware --form json -o nodes"
after = ["left", "right"]
"""
STUBBORN = """
[analysis]
options = ["--no-dashboard", "--period", "0.2"]
[[task]]
name = "stubborn"
command = ["sh", "-c", "trap '' TERM; touch runs; sleep 1000 & wait; sleep 1000"]
ranks = 2
nodes = 2
"""
EXCLUSIVE = """
placement = "exclusive"
[monitor]
[[task]]
name = "where"
command = "uname -n"
cores = 4
[[task]]
name = "hardware"
command = "sh -c 'until chimbuko namespaces read hardware -o nodes; grep -q stat nodes; do :; done'"
"""
PROGRAM = """
import time
def work():
    time.sleep(0.01)
for _ in range(30):
    work()
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    try:
        with Slurm(2) as cluster:
            yield cluster
    except NotPermitted as reason:
        pytest.skip(f"no Slurm here: {reason}")


def job(slurm: Slurm, name: str, text: str) -> Path:
    folder = slurm.folder / name
    folder.mkdir()
    (folder / "w.toml").write_text(text)
    (folder / "simulation.py").write_text(PROGRAM)
    return folder


def test_tasks_are_steps_on_cores_of_their_own(slurm: Slurm) -> None:
    folder = job(slurm, "steps", WORKFLOW)
    command = ["salloc", "--nodes=2", "--exclusive", "chimbuko", "workflow", "w.toml", "-o", "out"]
    output = slurm.on_login("sh", "-c", f"{' '.join(command)} 2>&1", cwd=folder, timeout_s=150.0)
    said = [(folder / "out" / "logs" / f"task-{name}.log").read_text().split() for name in ("left", "right")]
    assert sorted(said) == [["4", node] for node in slurm.nodes], output
    assert (folder / "states").read_text().count("DONE") >= 6
    assert all(node in (folder / "nodes").read_text() for node in slurm.nodes)
    with open_run(RunDirectory(folder / "out" / "run")) as provenance:
        assert {(stream.rank, stream.state) for stream in provenance.health()} == {
            (rank, "ended") for rank in range(4)
        }
    assert no_loss(output)


def test_services_can_have_a_node_without_tasks(slurm: Slurm) -> None:
    folder = job(slurm, "exclusive", EXCLUSIVE)
    (folder / "job.sh").write_text("#!/bin/sh\nexec chimbuko workflow w.toml -o out\n")
    number = slurm.submit("--nodes=2", "--exclusive", "--output=job.out", "job.sh", cwd=folder)
    state = slurm.wait_for_state(number, "COMPLETED", "FAILED", timeout_s=90.0)
    own, other = slurm.nodes_of(number)
    assert state == "COMPLETED", (folder / "job.out").read_text()
    assert (folder / "out" / "logs" / "task-where.log").read_text() == f"{other}\n"
    nodes = (folder / "nodes").read_text()
    assert other in nodes and own not in nodes


def test_a_job_that_is_cancelled_leaves_no_process(slurm: Slurm) -> None:
    folder = job(slurm, "cancelled", STUBBORN)
    script = folder / "job.sh"
    script.write_text("#!/bin/sh\nexec chimbuko workflow w.toml -o out\n")
    number = slurm.submit("--nodes=2", "--exclusive", "--output=job.out", "job.sh", cwd=folder)
    until((folder / "runs").exists, 60.0, "a task that runs")
    # The batch script first, as notice of a time limit does.
    slurm.on_login("scancel", "--batch", "--signal=TERM", str(number))
    state = slurm.wait_for_state(number, "COMPLETED", "FAILED", "CANCELLED", timeout_s=90.0)
    assert state == "FAILED" and "stubborn: is cancelled" in (folder / "job.out").read_text()
    assert RunDirectory(folder / "out" / "run").read_info().state == "finished"
    for node in slurm.nodes:
        assert "sleep 1000" not in slurm.on(node, "ps", "-e", "-o", "args")
