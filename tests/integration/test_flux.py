"""Jobs of ``chimbuko launch`` under a real Flux of three nodes, which a job of a real Slurm starts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.integration.batchjob import BatchJob
from tests.integration.namespaces import NotPermitted
from tests.integration.slurm import Slurm

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    if shutil.which("flux") is None:
        pytest.skip("no flux on the PATH, nor in Debian 12: build flux-core, outside of /tmp")
    try:
        with Slurm(3) as cluster:
            yield cluster
    except NotPermitted as reason:
        pytest.skip(f"no Slurm here, which would start Flux: {reason}")


def in_flux(slurm: Slurm, job: BatchJob, script: str) -> None:
    """Run a shell's commands in an instance of Flux."""
    (job.folder / "outer.sh").write_text(script)
    start = ["srun", "--nodes=3", "--ntasks=3", "--mpi=pmi2", "flux", "start", "sh", "outer.sh"]
    slurm.on_login(*start, cwd=job.folder, timeout_s=200.0)


BATCH = """
id=$(flux batch --output=job.out {options} job.sh)
{meanwhile}
flux job wait-event "$id" clean
flux job info "$id" eventlog >events
"""


@pytest.mark.parametrize("options", [["--dedicated", "--time", "20min", "--job-name", "heat"], []])
def test_job_of_flux(slurm: Slurm, options: list[str]) -> None:
    job = BatchJob(slurm, f"whole{len(options)}", "--flux", "3", *options)
    job.let_it_end()
    in_flux(slurm, job, BATCH.format(options="", meanwhile=""))
    job.assert_whole()
    assert job.nodes() == set(slurm.nodes[1:] if options else slurm.nodes)
    assert "localhost:" in job.output and slurm.nodes[0] in job.output


def test_a_job_whose_time_is_nearly_over_ends_in_order(slurm: Slurm) -> None:
    job = BatchJob(slurm, "limit", "--flux", "3")
    in_flux(slurm, job, BATCH.format(options="--time-limit=145s", meanwhile=""))
    assert "asked to end" in job.output
    assert '"exception"' not in (job.folder / "events").read_text()
    job.assert_stored()


def test_an_instance_that_is_held_is_used(slurm: Slurm) -> None:
    job = BatchJob(slurm, "inside", "--flux", "3")
    job.let_it_end()
    launched = f"chimbuko launch --inside -n 4 -- chimbuko trace program.py {job.folder}"
    in_flux(slurm, job, f"{launched} >job.out 2>&1")
    assert f"inside a job of flux with {', '.join(slurm.nodes)}" in job.output
    job.assert_whole()
