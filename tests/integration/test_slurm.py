"""Jobs of ``chimbuko launch`` under a real Slurm: from ``sbatch`` to the page and the summary, and what a
cluster does to them.
"""

from __future__ import annotations

import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.runtime.process.hostlists import expand
from tests.integration.batchjob import CHIMBUKO, BatchJob
from tests.integration.conftest import Outcome
from tests.integration.namespaces import NotPermitted
from tests.integration.slurm import Slurm, until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    try:
        with Slurm(3) as cluster:
            yield cluster
    except NotPermitted as reason:
        pytest.skip(f"no Slurm here: {reason}")


def submit(
    slurm: Slurm, name: str, *options: str, at_submission: tuple[str, ...] = ()
) -> tuple[int, BatchJob]:
    """A job on three nodes, when all its ranks run, and its number."""
    job = BatchJob(slurm, name, "--slurm", "3", *options)
    number = slurm.submit(*at_submission, "--output=job.out", "job.sh", cwd=job.folder)
    wait_until_it_runs(slurm, number, job)
    return number, job


def wait_until_it_runs(slurm: Slurm, number: int, job: BatchJob) -> None:
    def is_running() -> bool:
        state = slurm.state(number)
        assert state in ("PENDING", "RUNNING", "CONFIGURING"), f"{state}: {job.output}"
        return job.is_running and "-L" in job.output

    until(is_running, 180.0, "all ranks, and the line for the page")


@pytest.mark.parametrize("options", [["--dedicated", "--time", "20min", "--job-name", "heat"], []])
def test_job_from_submission_to_the_page_and_the_summary(slurm: Slurm, options: list[str]) -> None:
    number, job = submit(slurm, f"whole{len(options)}", *options)
    first, *others = slurm.nodes_of(number)
    address = job.runs[0].dashboard_path.read_text().strip()
    # The token becomes a cookie.
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with slurm.inside(first), browser.open(address, timeout=PATIENCE_S) as page:
        assert page.status == 200 and b"<html" in page.read()
    line = re.search(r"ssh -J (\S+) -L (\d+):localhost:\2 (\S+)\n", job.output)
    assert line and line.groups() == (slurm.login, address.split(":")[2].split("/")[0], first)
    assert address.rpartition("=")[2] not in job.output
    job.let_it_end()
    assert slurm.wait_for_state(number, "COMPLETED", "FAILED") == "COMPLETED", job.output
    job.assert_whole()
    assert job.nodes() == set(others if options else [first, *others])


def test_a_job_whose_time_is_nearly_over_ends_in_order(slurm: Slurm) -> None:
    # Notice comes up to a minute early.
    number, job = submit(slurm, "limit", at_submission=("--time=3", "--signal=B:TERM@60"))
    assert slurm.wait_for_state(number, "FAILED", "TIMEOUT", timeout_s=240.0) == "FAILED", job.output
    assert "asked to end" in job.output
    # Ranks have been asked, and not simply killed.
    assert "Terminated" in job.output and "Killed" not in job.output
    job.assert_stored()


def test_a_job_that_is_cancelled_stores_what_was_found(slurm: Slurm) -> None:
    number, job = submit(slurm, "cancelled")
    slurm.on_login("scancel", str(number))
    slurm.wait_for_state(number, "CANCELLED")
    assert job.runs[0].read_info().state == "interrupted"
    job.assert_stored()


def test_a_job_that_is_put_back_into_the_queue_begins_anew_in_a_folder_of_its_own(slurm: Slurm) -> None:
    number, job = submit(slurm, "requeued")
    job.forget_beginning()
    slurm.on_login("scontrol", "requeue", str(number))
    slurm.wait_for_state(number, "PENDING")
    # Else it waits for two minutes.
    slurm.on_login("scontrol", "update", f"jobid={number}", "starttime=now")
    wait_until_it_runs(slurm, number, job)
    job.let_it_end()
    assert slurm.wait_for_state(number, "COMPLETED", "FAILED") == "COMPLETED", job.output
    job.assert_whole()
    assert [run.path.name for run in job.runs] == [f"job-{number}", f"job-{number}.2"]
    assert job.runs[0].read_info().state == "interrupted"


def test_a_node_that_is_lost_costs_what_only_it_had(slurm: Slurm) -> None:
    number, job = submit(slurm, "lost", "--dedicated", at_submission=("--no-requeue",))
    *_, lost = slurm.nodes_of(number)
    slurm.lose(lost)
    slurm.wait_for_state(number, "NODE_FAIL", "CANCELLED", "FAILED")
    slurm.bring_back(lost)
    assert f"nothing is heard of agent-{lost}" in job.output
    assert job.runs[0].read_info().state == "interrupted"
    job.assert_stored(but=lost)


def test_an_allocation_that_is_held_is_used(slurm: Slurm) -> None:
    job = BatchJob(slurm, "inside", "--slurm", "3")
    job.let_it_end()
    command = [
        "chimbuko",
        "launch",
        "--inside",
        "-n",
        "4",
        "--",
        "chimbuko",
        "trace",
        "program.py",
        job.folder,
    ]
    words = " ".join(map(str, command))
    # The second of three nodes gives an idea of a shell that salloc has started there.
    script = f"srun --nodes=1 --relative=0 --overlap --ntasks=1 bash -c '{words}' >job.out 2>&1"
    slurm.on_login("salloc", "--nodes=3", "--exclusive", "sh", "-c", script, cwd=job.folder, timeout_s=120.0)
    assert "inside a job of slurm with" in job.output and "is none of them" not in job.output
    job.assert_whole()
    assert job.nodes() == set(slurm.nodes)


def test_a_recorded_trace_is_shared_by_the_nodes_of_a_job(
    slurm: Slurm, heat4: Path, heat4_run: Outcome
) -> None:
    folder = slurm.folder / "recorded"
    # Nodes have a /tmp of their own.
    shutil.copytree(heat4, folder / "heat4")
    made = ["launch", "--slurm", "3", "--trace", "heat4/*.bp", "-o", "job.sh"]
    slurm.on_login(*CHIMBUKO, *made, cwd=folder)
    number = slurm.submit("--output=job.out", "job.sh", cwd=folder)
    state = slurm.wait_for_state(number, "COMPLETED", "FAILED")
    assert state == "COMPLETED", (folder / "job.out").read_text()
    found = Outcome(folder / "chimbuko-runs" / f"job-{number}")
    assert found.info.state == "finished"
    assert {call.id: call.severity_us for call in found.anomalies} == {
        call.id: call.severity_us for call in heat4_run.anomalies
    }
    assert {stream.node for stream in found.health} == set(slurm.nodes)


def test_hostlists_are_read_as_slurm_reads_them(slurm: Slurm) -> None:
    for text in ("a1", "node[1-3,7]", "node[008-011],login", "r[1-2]n[01-02]"):
        assert expand(text) == slurm.on_login("scontrol", "show", "hostnames", text).split()
