"""Ranks of the members of a family: those of a job of MPI keep theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from chimbuko.instrument.tracer.members import InMpi, Place, Places

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
def launched(said: Sequence[dict[str, str]]) -> Iterator[list[int]]:
    """Processes of a job, to which a launcher says its variables."""
    words = [sys.executable, "-c", LAUNCHER, json.dumps(said)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        pids = [int(pid) for pid in launcher.stdout.readline().split()]
        yield pids
        launcher.communicate("")


def plain() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


def test_ranks_of_a_job_share_a_first_one_in_whatever_order_they_come() -> None:
    places = Places(plain())
    with launched(HYDRA) as first, launched(HYDRA) as second:
        assert places.of(os.getpid()) == Place(0, 1)
        assert places.of(first[2]) == Place(1, 3, 2)
        assert places.of(os.getpid()) == Place(4, 1)
        assert places.of(second[1]) == Place(5, 3, 1)
        assert places.of(first[0]) == Place(1, 3, 0)
        assert places.of(second[0]) == Place(5, 3, 0)


def test_programs_that_all_ranks_of_a_job_run_one_after_the_other_are_apart() -> None:
    places = Places(plain())
    with launched(HYDRA) as job:
        assert [places.of(pid).first_rank for pid in [*job, *job]] == [0, 0, 0, 3, 3, 3]


def test_family_of_a_launched_rank_has_no_job_of_its_own() -> None:
    with launched(HYDRA) as job:
        places = Places({**plain(), **HYDRA[1]})
        assert [places.of(job[1]) for _ in range(2)] == [Place(0, 3), Place(3, 3)]


def test_step_of_slurm_differs_from_its_batch_script_which_has_a_rank_too() -> None:
    batch = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
    with launched([{**batch, "SLURM_PROCID": rank, "SLURM_STEP_ID": "0"} for rank in "01"]) as job:
        places = Places({**plain(), **batch})
        assert [places.of(pid) for pid in job] == [Place(0, 2, 0), Place(0, 2, 1)]


def test_process_that_has_ended_is_placed_by_what_mpi_said() -> None:
    places = Places(plain())
    ended = 2**22 + 1
    assert places.of(ended, lambda: InMpi(7, 1, 2)) == Place(0, 2, 1)
    assert places.of(ended, lambda: InMpi(7, 0, 2)) == Place(0, 2, 0)
    assert places.of(ended, lambda: InMpi(7, 0, 1)) == Place(2, 1)
    assert places.of(ended, lambda: InMpi(7)) == Place(3, 1)


def test_a_process_that_executes_another_program_keeps_its_rank() -> None:
    """It has no environment for a moment."""
    words = ["sh", "-c", "exec sh -c 'exec sh -c \"exec sleep 1\"'"]
    for _ in range(30):
        environment = {**os.environ, "PMI_RANK": "2", "PMI_SIZE": "3"}
        with subprocess.Popen(words, env=environment) as process:
            places = [Places({}).of(process.pid) for _ in range(30)]
            process.kill()
        assert {place.rank for place in places} == {2}


def test_what_mpi_says_is_asked_when_a_process_has_ended_and_not_before() -> None:
    """Asked first, it had said nothing yet of a rank that ended in the next moment."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""], stdin=subprocess.PIPE) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        said = iter([InMpi(os.getpid(), 1, 2), InMpi(os.getpid(), 0, 2)])
        places = Places(plain())
        assert places.of(os.getpid(), lambda: next(said)) == Place(0, 1), "it goes on: MPI is not asked"
        ranks = [places.of(process.pid, lambda: next(said)) for _ in range(2)]
    assert ranks == [Place(1, 2, 1), Place(1, 2, 0)]
