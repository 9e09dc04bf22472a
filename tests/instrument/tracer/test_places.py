"""Ranks of the members of a family: those of a job of MPI keep theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chimbuko.instrument.tracer.places import Launched, Place, Places, launched

HYDRA = [{"PMI_RANK": str(rank), "PMI_SIZE": "3"} for rank in range(3)]
LAUNCHER = """
import json, os, subprocess, sys
said = json.loads(sys.argv[1])
ranks = [subprocess.Popen(["sleep", "60"], env={**os.environ, **one}) for one in said]
print(*(rank.pid for rank in ranks), flush=True)
sys.stdin.read()
for rank in ranks: rank.kill()
"""


@contextmanager
def job_of(said: Sequence[dict[str, str]]) -> Iterator[list[int]]:
    """Processes of a job, to which a launcher says its variables."""
    words = [sys.executable, "-c", LAUNCHER, json.dumps(said)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        pids = [int(pid) for pid in launcher.stdout.readline().split()]
        yield pids
        launcher.communicate("")


def found(pid: int) -> Launched:
    """What the launcher of a process, which goes on, has said."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    said = launched(pid, parent)
    assert said is not None
    return said


def plain() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


def test_ranks_of_a_job_share_a_first_one_in_whatever_order_they_come() -> None:
    places = Places(plain())
    with job_of(HYDRA) as first, job_of(HYDRA) as second:
        assert places.of(found(os.getpid())) == Place(0, 1)
        assert places.of(found(first[2])) == Place(1, 3, 2)
        assert places.of(found(os.getpid())) == Place(4, 1)
        assert places.of(found(second[1])) == Place(5, 3, 1)
        assert places.of(found(first[0])) == Place(1, 3, 0)
        assert places.of(found(second[0])) == Place(5, 3, 0)


def test_programs_that_all_ranks_of_a_job_run_one_after_the_other_are_apart() -> None:
    places = Places(plain())
    with job_of(HYDRA) as job:
        assert [places.of(found(pid)).first_rank for pid in [*job, *job]] == [0, 0, 0, 3, 3, 3]


def test_family_of_a_launched_rank_has_no_job_of_its_own() -> None:
    with job_of(HYDRA) as job:
        places = Places({**plain(), **HYDRA[1]})
        assert [places.of(found(job[1])) for _ in range(2)] == [Place(0, 3), Place(3, 3)]


def test_step_of_slurm_differs_from_its_batch_script_which_has_a_rank_too() -> None:
    batch = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
    with job_of([{**batch, "SLURM_PROCID": rank, "SLURM_STEP_ID": "0"} for rank in "01"]) as job:
        places = Places({**plain(), **batch})
        assert [places.of(found(pid)) for pid in job] == [Place(0, 2, 0), Place(0, 2, 1)]


def test_nothing_is_known_of_a_process_that_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert launched(process.pid, os.getpid()) is None, "nobody has waited for it"
    assert launched(process.pid, os.getpid()) is None


def test_a_process_that_executes_another_program_keeps_its_rank() -> None:
    """It has no environment for a moment."""
    words = ["sh", "-c", "exec sh -c 'exec sh -c \"exec sleep 1\"'"]
    for _ in range(30):
        environment = {**os.environ, "PMI_RANK": "2", "PMI_SIZE": "3"}
        with subprocess.Popen(words, env=environment) as process:
            places = [Places({}).of(found(process.pid)) for _ in range(30)]
            process.kill()
        assert {place.rank for place in places} == {2}
