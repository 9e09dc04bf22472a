"""``chimbuko monitor`` over real programs."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.monitor.report.csvwriter import read_zerosum
from tests.patience import PATIENCE_S

SPIN = "import time\nwhile time.process_time() < {cpu_s}: pass"
TWO_RANKS = """
import os, subprocess, sys
cores = sorted(os.sched_getaffinity(0))
last = cores[-1]
ranks = []
for rank in range(2):
    os.sched_setaffinity(0, {last if sys.argv[2] == "on one core" else cores[rank]})
    command = [sys.executable, "-c", sys.argv[1]]
    ranks.append(subprocess.Popen(command, env={**os.environ, "SLURM_PROCID": str(rank)}))
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
    ranks = (sys.executable, "-c", TWO_RANKS, spin, "on one core")
    done = monitor("--period", "500ms", "--csv", str(tmp_path), "--", *ranks)
    assert done.returncode == 3
    assert done.stdout == ""
    # On a busy machine the process that starts them waits for its core, too.
    assert re.search(
        r"oversubscribed: ([23]) threads of \1 processes,?(?: 2 at a time,)? share 1 core", done.stderr
    ), done.stderr
    assert "start 1 rank here" in done.stderr
    assert re.search(r"^MPI 000 - PID \d+ - Node .* - CPUs allowed: \[\d+\]$", done.stderr, re.MULTILINE)
    assert re.search(r"^MPI 001 - ", done.stderr, re.MULTILINE)
    found = list(read_zerosum(tmp_path / "zs.data.1.csv"))
    times = [one.number or 0 for one in found if one.name == "utime"]
    assert {one.rank for one in found} == {1}
    assert max(times) > 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")
def test_the_same_ranks_on_a_core_each_are_not() -> None:
    spin = SPIN.format(cpu_s=0.5)
    done = monitor("--period", "200ms", "--", sys.executable, "-c", TWO_RANKS, spin, "on one each")
    assert done.returncode == 3
    cores = sorted(os.sched_getaffinity(0))[:2]
    for rank, core in enumerate(cores):
        line = rf"^MPI 00{rank} - PID \d+ - Node .* - CPUs allowed: \[{core}\]$"
        assert re.search(line, done.stderr, re.MULTILINE), done.stderr
    assert "Findings:" in done.stderr
    # Others that take most of both cores, as on a busy machine, are foreign load alone.
    assert "oversubscribed" not in done.stderr, done.stderr


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
    found = rf"the threads of process {pid} \(python\d?[\d.]*\) wait for each other: thread {pid} "
    assert re.search(found, said), said
    assert re.search(rf"deadlock: {found}.* until the process was ended", report), report
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


def test_topology_as_json() -> None:
    found = json.loads(monitor("--topology", "--json").stdout)
    assert found["allowed_cpus"] == sorted(os.sched_getaffinity(0))
    assert found["machine"]["kind"] == "Machine" and len(found["machine"]["cpus"]) == os.cpu_count()
    assert found["machine"]["parts"][0]["parts"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "give either a command behind --, or --pid"),
        (["--pid", "1", "--", "true"], "give either a command behind --, or --pid"),
        (["--pid", "4194305"], "no such process on this node"),
        (["--period", "1ms", "--", "true"], "give between 50ms and 3600s"),
        (["--core", "60000", "--", "true"], "this process may use"),
        (["--csv", "/dev/null/samples", "--", "touch", "RAN"], "/dev/null/samples: not a folder"),
        (["--prometheus", "/no/such/a.prom", "--", "touch", "RAN"], "/no/such: no such folder"),
        (["--adios", "/no/such/a.bp", "--", "touch", "RAN"], "/no/such: no such folder"),
        (["--baseline", "/no/such", "--", "touch", "RAN"], "no profile of a run"),
    ],
)
def test_errors_say_what_to_do(arguments: list[str], error: str, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    done = CliRunner().invoke(main, ["monitor", *(str(ran) if one == "RAN" else one for one in arguments)])
    assert done.exit_code == 2
    assert error in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not ran.exists(), "the program was started, and nobody watched it"


SLEEPS_TWICE = "import time; time.sleep(0.4); raise SystemExit(3)"


LASTS = SLEEPS_TWICE.replace("0.4", "3.0")
"""On a busy machine the monitor has not looked twice within 0.4 s: it loads ADIOS2 first."""


def no_large_files() -> None:
    """Python ignores the signal; to write more fails, as it does where a disk is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))


def test_a_full_disk_ends_the_table_and_not_the_program(tmp_path: Path) -> None:
    exports = ("--csv", str(tmp_path / "csv"), "--prometheus", str(tmp_path / "a.prom"), "--adios")
    done = monitor(
        *("--period", "50ms", *exports, str(tmp_path / "a.bp"), "--", sys.executable, "-c", LASTS),
        # Python would leave half a file of what it compiles, and take it for whole the next time.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=no_large_files,
    )
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    for name in ("csv", "a.prom", "a.bp"):
        assert done.stderr.count(f"{tmp_path / name}: cannot be written to (") == 1, done.stderr
    assert "Duration of execution" in done.stderr


def test_that_nobody_reads_the_report_does_not_change_the_exit_code() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "chimbuko", "monitor", "--period", "50ms", "--heartbeat", "--"]
    done = subprocess.run([*command, sys.executable, "-c", SLEEPS_TWICE], stderr=writing, timeout=PATIENCE_S)
    os.close(writing)
    assert done.returncode == 3


FAILS = """
import sys
from chimbuko.cli import main
from chimbuko.monitor.service.session import Session

def fail(self, is_last=False):
    raise RuntimeError("made up")

Session.period = fail
main(["monitor", "--", sys.executable, "-c", "raise SystemExit(3)"])
"""


def test_a_monitor_that_fails_leaves_the_program_alone() -> None:
    done = subprocess.run([sys.executable, "-c", FAILS], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 3
    assert "the monitor has failed (made up); the program goes on without it" in done.stderr


def test_a_program_that_ends_within_its_first_period() -> None:
    done = monitor("--", "true")
    assert done.returncode == 0
    assert done.stderr.startswith("It ended within its first period (1000 ms)"), done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_reach_the_program(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "chimbuko", "monitor", "--period", "50ms", "--heartbeat", "--"]
    watching = subprocess.Popen([*command, "sleep", "100"], stderr=subprocess.PIPE, text=True)
    assert watching.stderr is not None
    watching.stderr.readline()
    watching.send_signal(number)
    _, report = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 128 + number
    assert "Duration of execution" in report


def test_several_processes_are_watched_until_the_last_has_ended() -> None:
    programs = [subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(2)]
    pids = [word for one in programs for word in ("--pid", str(one.pid))]
    command = [sys.executable, "-m", "chimbuko", "monitor", "--period", "50ms", "--heartbeat", *pids]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watching.stderr is not None
    try:
        while " 2 processes," not in watching.stderr.readline():
            pass
        programs[0].communicate()
        while " 1 process," not in watching.stderr.readline():
            pass
    finally:
        programs[1].communicate()
    report, _ = watching.communicate(timeout=PATIENCE_S)
    assert all(f"PID {one.pid} - " in report for one in programs)


def test_the_number_of_a_thread_is_none_of_a_process() -> None:
    found: list[int] = []
    meet = threading.Barrier(2)

    def say() -> None:
        found.append(threading.get_native_id())
        meet.wait()
        meet.wait()

    thread = threading.Thread(target=say)
    thread.start()
    meet.wait()
    done = CliRunner().invoke(main, ["monitor", "--pid", str(found[0])])
    meet.wait()
    thread.join()
    assert done.exit_code == 2
    assert f"a thread of process {os.getpid()}; give --pid {os.getpid()}" in done.stderr


def test_a_program_has_the_descriptors_that_its_launcher_has_opened_for_it() -> None:
    """By one of them MPICH's mpirun and a rank talk: without it MPI_Init ends the program."""
    reading, writing = os.pipe()
    say = f"import os; os.write({writing}, b'heard')"
    done = monitor("--", sys.executable, "-c", say, pass_fds=(writing,))
    assert done.returncode == 0, done.stderr
    assert os.read(reading, 5) == b"heard"
    os.close(reading)
    os.close(writing)
