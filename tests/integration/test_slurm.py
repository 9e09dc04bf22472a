"""Jobs of ``chimbuko launch`` under a real Slurm: from ``sbatch`` to the page and the summary, and what a
cluster does to them.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from chimbuko.launcher.jobs.hostlists import expand
from chimbuko.provenance.query.run import open_run
from chimbuko.runs.directory import RunDirectory
from examples.findings import all_anomalies
from tests.integration.namespaces import NotPermitted
from tests.integration.slurm import Slurm, until

pytestmark = pytest.mark.thorough

CHIMBUKO = [sys.executable, "-m", "chimbuko"]
RANKS = 4
STEPS, DELAYED = 400, (200, 300)
PROGRAM = f"""
import os, pathlib, sys, time

def relax(number):
    time.sleep(0.25 if number in {DELAYED} else 0.004)

def step(number):
    relax(number)

folder, rank = pathlib.Path(sys.argv[1]), os.environ["SLURM_PROCID"]
(folder / f"began-{{rank}}").touch()
number = 0
while number < {STEPS} or not (folder / "enough").exists():
    step(number)
    number += 1
(folder / f"steps-{{rank}}").write_text(str(number))
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    try:
        with Slurm(3) as cluster:
            yield cluster
    except NotPermitted as reason:
        pytest.skip(f"no Slurm here: {reason}")


class Submitted:
    """A job of ``chimbuko launch``, in a folder of its own that all nodes see."""

    def __init__(self, slurm: Slurm, name: str, *options: str) -> None:
        self._slurm = slurm
        self.folder = slurm.folder / name
        self.folder.mkdir()
        (self.folder / "program.py").write_text(PROGRAM)
        traced = [*CHIMBUKO, "trace", "program.py", str(self.folder)]
        asked = ["--slurm", "3", "-n", str(RANKS), *options, "-o", "job.sh", "--"]
        slurm.on_login(*CHIMBUKO, "launch", *asked, *traced, cwd=self.folder)
        self.number = 0

    def submit(self, *options: str) -> None:
        self.number = self._slurm.submit(*options, "--output=job.out", "job.sh", cwd=self.folder)

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(self.folder / "chimbuko-runs" / f"job-{self.number}")

    @property
    def output(self) -> str:
        path = self.folder / "job.out"
        return path.read_text() if path.exists() else ""

    def wait_until_all_ranks_run(self) -> None:
        def all_run() -> bool:
            state = self._slurm.state(self.number)
            assert state in ("PENDING", "RUNNING", "CONFIGURING"), f"{state}: {self.output}"
            return len(list(self.folder.glob("began-*"))) == RANKS

        until(all_run, 120.0, "all ranks")

    def let_it_end(self) -> None:
        (self.folder / "enough").touch()

    @property
    def steps(self) -> int:
        """That all ranks have done, as they say themselves at their end."""
        return sum(int(path.read_text()) for path in self.folder.glob("steps-*"))

    def calls(self, run: RunDirectory, function: str) -> int:
        """Learned calls of a function, of all ranks."""
        with open_run(run) as provenance:
            return sum(
                f.calls for f in provenance.function_statistics() if f.name.startswith(f"{function} [")
            )


def found_and_seen(run: RunDirectory) -> tuple[int, int]:
    """Anomalies in the store, and those that agents have counted."""
    with open_run(run) as provenance:
        return len(all_anomalies(provenance)), sum(s.anomalies for s in provenance.health())


@pytest.mark.parametrize("options", [["--dedicated", "--time", "20min", "--job-name", "heat"], []])
def test_job_from_submission_to_the_page_and_the_summary(slurm: Slurm, options: list[str]) -> None:
    job = Submitted(slurm, f"whole{len(options)}", *options)
    job.submit()
    job.wait_until_all_ranks_run()
    first, *others = slurm.nodes_of(job.number)
    until(lambda: "-L" in job.output, 60.0, "the line for the page")
    address = job.run.dashboard_path.read_text().strip()
    # The token becomes a cookie.
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with slurm.inside(first), browser.open(address, timeout=20) as page:
        assert page.status == 200 and b"<html" in page.read()
    port = re.search(r"ssh -J (\S+) -L (\d+):localhost:\2 (\S+)\n", job.output)
    assert port and port.groups() == (slurm.login, address.split(":")[2].split("/")[0], first)
    assert address.rpartition("=")[2] not in job.output
    job.let_it_end()
    assert slurm.wait_for_state(job.number, "COMPLETED", "FAILED") == "COMPLETED", job.output
    assert job.run.read_info().state == "finished"
    assert "Lost: nothing" in job.output
    with open_run(job.run) as provenance:
        found, health = all_anomalies(provenance), provenance.health()
    assert {stream.node for stream in health} == set(others if options else [first, *others])
    assert [(s.state, s.gap_steps, s.losses) for s in health] == [("ended", 0, {})] * RANKS
    # The first call of each rank pays for loading and is not learned from.
    assert job.calls(job.run, "relax") == job.steps - RANKS > RANKS * (STEPS - 2)
    assert len(found) == sum(stream.anomalies for stream in health)
    delays = [call for call in found if call.inclusive_us > 200_000 and call.function.startswith("relax")]
    assert len(delays) == RANKS * len(DELAYED)


def test_hostlists_are_read_as_slurm_reads_them(slurm: Slurm) -> None:
    for text in ("a1", "node[1-3,7]", "node[008-011],login", "r[1-2]n[01-02]"):
        assert expand(text) == slurm.on_login("scontrol", "show", "hostnames", text).split()
