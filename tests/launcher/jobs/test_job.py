"""What is wanted of a job."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.launcher.jobs.job import LEAST_TIME_S, Job, Request, clock_of, parse_time_s
from chimbuko.launcher.jobs.schedulers import flux, lsf, pbs, slurm
from chimbuko.launcher.jobs.script import job_script

JOB = Job(program=["app"], ranks=8, chimbuko=["chimbuko"])
REQUEST = Request(2, 4, 5400, account="physics", queue="normal", name="heat")


@pytest.mark.parametrize(
    ("text", "time_s"),
    [("90min", 5400), ("2h", 7200), ("600s", 600), ("1d", 86_400), ("1:30:00", 5400), ("1-02:00:05", 93_605)],
)
def test_times(text: str, time_s: int) -> None:
    assert parse_time_s(text) == time_s


@pytest.mark.parametrize("text", ["90", "", "1:30", "1:60:00", "-5min", "2 weeks"])
def test_what_schedulers_read_in_different_ways_is_no_time(text: str) -> None:
    with pytest.raises(ConfigError, match="not a time"):
        parse_time_s(text)


def test_a_time_that_leaves_none_for_an_orderly_end_is_refused() -> None:
    assert Request(1, 1, LEAST_TIME_S).time_s == LEAST_TIME_S
    with pytest.raises(ConfigError, match="too short"):
        Request(1, 1, LEAST_TIME_S - 1)


def test_clock() -> None:
    assert clock_of(5400) == "1:30:00"
    assert clock_of(360_005) == "100:00:05"


@pytest.mark.parametrize(
    ("maker", "lines"),
    [
        (
            slurm,
            {"--nodes=2", "--time=1:30:00", "--account=physics", "--partition=normal", "--job-name=heat"}
            | {"--signal=B:TERM@120", "--exclusive"},
        ),
        (
            pbs,
            {"-l select=2:ncpus=4:mpiprocs=4", "-l place=scatter:excl", "-l walltime=1:30:00", "-j oe"}
            | {"-A physics", "-q normal", "-N heat"},
        ),
        (
            flux,
            {"--nodes=2", "--time-limit=5400s", "--bank=physics", "--queue=normal", "--job-name=heat"}
            | {"--signal=TERM@120s", "--exclusive"},
        ),
        (
            lsf,
            {"-n 8", '-R "span[ptile=4]"', "-W 1:30", "-P physics", "-q normal", "-J heat", "-o %J.out"}
            | {"-x", "-wa 'URG'", "-wt '2'"},
        ),
    ],
)
def test_what_schedulers_are_asked_for(maker, lines: set[str]) -> None:  # type: ignore[no-untyped-def]
    directives = maker(JOB, REQUEST).directives
    assert {line.partition(" ")[2] for line in directives} == lines
    script = job_script(JOB, maker(JOB, REQUEST), REQUEST)
    # Schedulers read no further than the first command.
    assert script.splitlines()[1 : 1 + len(directives)] == list(directives)
    assert not maker(JOB, None).directives


def test_where_nobody_gives_notice_the_script_has_a_clock() -> None:
    assert "sleep 5280 &" in job_script(JOB, pbs(JOB, REQUEST), REQUEST)
    assert "sleep 5280 &" not in job_script(JOB, slurm(JOB, REQUEST), REQUEST)


def test_the_step_of_the_ranks_has_a_name_by_which_it_is_ended() -> None:
    own = Job(program=["app"], ranks=8, chimbuko=["chimbuko"], mpirun=["srun", "-n", "8", "a b"])
    assert slurm(own, None).ranks == "srun --job-name=\"chimbuko-$$\" -n 8 'a b'"
    other = Job(program=["app"], ranks=8, chimbuko=["chimbuko"], mpirun=["mpirun", "-n", "8"])
    assert slurm(other, None).ranks == "mpirun -n 8"


@pytest.mark.parametrize(("maker", "nodes"), [(slurm, "$nodes"), (pbs, "${#hosts[@]}")])
def test_agents_of_a_recorded_trace_are_as_many_as_nodes(maker, nodes: str) -> None:  # type: ignore[no-untyped-def]
    job = Job(program=[], ranks=2, chimbuko=["chimbuko"], traces=("/a b/*.bp", "/c.bp"))
    script = job_script(job, maker(job, REQUEST), REQUEST)
    assert f"--trace '/a b/*.bp' --trace /c.bp --agents \"{nodes}\" &" in script
    assert "settings/node" not in script and "mpirun" not in script and "srun --job-name" not in script


def test_an_archive_is_not_taken_from_where_a_stranger_has_put_a_file(tmp_path: Path) -> None:
    """On the nodes it comes into a folder where everybody can write, and is run from there."""
    own, taken, sent = tmp_path / "own", tmp_path / "taken", tmp_path / "sent"
    own.write_text("ours")
    taken.write_text("a stranger's")
    for name, text in (("sbcast", 'set -C; cat "$1" > "$2"'), ("mktemp", 'echo "$PLACE"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o700)
    for place, used in ((taken, own), (sent, sent)):
        done = subprocess.run(
            ["bash", "-c", f'archive={own}; {slurm(JOB, None).send}\necho "$archive"'],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "PLACE": str(place), "SLURM_JOB_ID": "77"},
            capture_output=True,
            text=True,
        )
        assert done.stdout == f"{used}\n"
    assert sent.read_text() == "ours"
