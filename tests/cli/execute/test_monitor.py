"""``chimbuko monitor`` over real programs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.monitor.report.zerosumfile import read_zerosum
from tests.patience import PATIENCE_S

SPIN = "import time\nwhile time.process_time() < {cpu_s}: pass"
TWO_ON_ONE = """
import os, subprocess, sys, time
core = max(os.sched_getaffinity(0))
os.sched_setaffinity(0, {core})
ranks = [
    subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={**os.environ, "SLURM_PROCID": str(rank)})
    for rank in range(2)
]
sys.exit(max(rank.wait() for rank in ranks) + 3)
"""


DEADLOCK = """
import os, threading
first, second, meet = threading.Lock(), threading.Lock(), threading.Barrier(2)

def take(one, other):
    with one:
        meet.wait()
        with other:
            pass

threads = [threading.Thread(target=take, args=pair) for pair in ((first, second), (second, first))]
for thread in threads:
    thread.start()
print(os.getpid(), flush=True)
for thread in threads:
    thread.join()
"""


def monitor(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chimbuko", "monitor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **more)  # type: ignore[call-overload,no-any-return]


def test_two_ranks_on_one_core_are_oversubscribed(tmp_path: Path) -> None:
    spin = SPIN.format(cpu_s=1.5)
    done = monitor("--period", "500ms", "--csv", str(tmp_path), "--", sys.executable, "-c", TWO_ON_ONE, spin)
    assert done.returncode == 3
    assert done.stdout == ""
    # On a busy machine the process that starts them waits for its core, too.
    assert re.search(r"oversubscribed: ([23]) threads of \1 processes share 1 core", done.stderr), done.stderr
    assert "start 1 rank here" in done.stderr
    assert re.search(r"^MPI 000 - PID \d+ - Node .* - CPUs allowed: \[\d+\]$", done.stderr, re.MULTILINE)
    assert re.search(r"^MPI 001 - ", done.stderr, re.MULTILINE)
    found = list(read_zerosum(tmp_path / "zs.data.1.csv"))
    times = [one.number or 0 for one in found if one.name == "utime"]
    assert {one.rank for one in found} == {1}
    assert max(times) > 0


def test_a_process_that_is_stopped_is_found_until_ctrl_c() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(100)"], stdout=subprocess.PIPE
    )
    assert program.stdout is not None
    program.stdout.readline()
    command = [sys.executable, "-m", "chimbuko", "monitor", "--pid", str(program.pid), "--period", "100ms"]
    try:
        program.send_signal(signal.SIGSTOP)
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert watching.stderr is not None
        said = watching.stderr.readline()
        watching.send_signal(signal.SIGINT)
        report, _ = watching.communicate(timeout=PATIENCE_S)
    finally:
        program.kill()
        program.communicate()
    assert watching.returncode == 0
    assert f"kill -CONT {program.pid}" in said, said
    assert f"kill -CONT {program.pid}" in report, report
    assert "stopped: the 1 thread" in report


def test_a_deadlock_is_said_while_it_lasts(tmp_path: Path) -> None:
    """Two threads take two locks in opposite order; a third waits for both."""
    script = tmp_path / "deadlock.py"
    script.write_text(DEADLOCK)
    command = [
        sys.executable,
        "-m",
        "chimbuko",
        "monitor",
        "--period",
        "200ms",
        "--",
        sys.executable,
        str(script),
    ]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watching.stdout is not None and watching.stderr is not None
    try:
        pid = int(watching.stdout.readline())
        said = watching.stderr.readline()
    finally:
        os.kill(pid, signal.SIGKILL)
        _, report = watching.communicate(timeout=PATIENCE_S)
    assert re.search(rf"the 3 threads of process {pid} sleep still for \d+ periods", said), said
    assert watching.returncode == 128 + signal.SIGKILL
    assert "process" not in report.partition("Duration")[0]


def test_a_signal_that_ended_the_program_is_its_exit_code() -> None:
    done = monitor("--period", "50ms", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 128 + signal.SIGKILL


def test_topology() -> None:
    done = monitor("--topology")
    first, *lines = done.stdout.splitlines()
    assert f"{os.cpu_count()} hardware thread" in first
    assert lines[0].startswith("Machine")
    assert sum(line.strip().startswith("PU ") for line in lines) == os.cpu_count()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "give either a command behind --, or --pid"),
        (["--pid", "1", "--", "true"], "give either a command behind --, or --pid"),
        (["--pid", "4194305"], "no such process on this node"),
        (["--period", "1ms", "--", "true"], "give between 50ms and 3600s"),
        (["--core", "60000", "--", "true"], "this process may use"),
        (["--", "/no/such/program"], "/no/such/program: cannot be run"),
    ],
)
def test_errors_say_what_to_do(arguments: list[str], error: str) -> None:
    done = CliRunner().invoke(main, ["monitor", *arguments])
    assert done.exit_code == 2
    assert error in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_has_the_descriptors_that_its_launcher_has_opened_for_it() -> None:
    """By one of them MPICH's mpirun and a rank talk: without it MPI_Init ends the program."""
    reading, writing = os.pipe()
    say = f"import os; os.write({writing}, b'heard')"
    done = monitor("--", sys.executable, "-c", say, pass_fds=(writing,))
    assert done.returncode == 0, done.stderr
    assert os.read(reading, 5) == b"heard"
    os.close(reading)
    os.close(writing)
