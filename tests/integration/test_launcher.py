"""Whatever fails of ours, the launcher waits for the program and passes its exit code."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chimbuko.core.errors import ServiceError
from chimbuko.launcher.application import TITLE
from tests.integration.conftest import BROKER, SERVER, Outcome, Run, Start
from tests.integration.held import CHIMBUKO, CODE, LOOKS_S, Held, mounted
from tests.patience import PATIENCE_S
from tests.thorough import first

BARE = ("--no-dashboard", "--period", "0.2", "--")
REFUSED = (1, 2, 4, 5)


def assert_outlived(run: Run, held: Held) -> None:
    """The program ended by itself, and its exit code was passed, without a word from Python."""
    held.release()
    assert run.end() == CODE, run.output
    assert held.end == "well", run.output
    assert "Traceback" not in run.output, run.output


def test_the_folder_of_the_run_is_removed(start: Start, held: Held) -> None:
    run = start(*BARE, *held.command)
    held.wait(run)
    remove(run.folder)
    assert_outlived(run, held)
    assert "Problem: " in run.output


@pytest.mark.thorough
def test_the_folders_of_the_run_and_of_the_streams_are_removed(
    start: Start, held: Held, tmp_path: Path
) -> None:
    (tmp_path / "streams").mkdir()
    run = start("--trace-dir", tmp_path / "streams", *BARE, *held.command)
    held.wait(run)
    remove(run.folder)
    shutil.rmtree(tmp_path / "streams")
    assert_outlived(run, held)


@pytest.mark.thorough
def test_the_folder_for_temporary_files_is_removed(start: Start, held: Held, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    run = start(*BARE, *held.command, environment={"TMPDIR": str(temporary)})
    held.wait(run)
    shutil.rmtree(temporary)
    assert_outlived(run, held)


def remove(folder: Path) -> None:
    """Also what somebody writes into it meanwhile."""
    for _ in range(100):
        with suppress(OSError):
            shutil.rmtree(folder)
            return
    shutil.rmtree(folder)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", folder], check=True)


def make_readonly(folder: Path) -> None:
    # Of a file system that is written to only a second mount of it can be made so.
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(4096))


@pytest.mark.thorough
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount file systems")
@pytest.mark.parametrize("fail", first(1, [unmount, make_readonly, fill]))
def test_the_file_system_of_the_run_fails(held: Held, tmp_path: Path, fail: Callable[[Path], None]) -> None:
    shared = tmp_path / "shared"
    with mounted(shared):
        run = Run(shared / "run", *BARE, *held.command)
        held.wait(run)
        fail(shared)
        assert_outlived(run, held)
        assert "Problem: " in run.output


NOBODY: list[tuple[list[str], str]] = [
    ([], "2>&1 | head -1"),
    (["--json"], "| true"),
    ([], "<&- >&- 2>&-"),
    ([], "2>&-"),
    (["--json"], ">&-"),
    (["--json"], "> /dev/full"),
    ([], "2> /dev/full"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("options", "redirections"), first(1, NOBODY))
def test_nobody_listens(held: Held, tmp_path: Path, options: list[str], redirections: str) -> None:
    words = [*CHIMBUKO, "run", "-o", str(tmp_path / "run"), *options, *BARE, *held.command]
    line = f"{shlex.join(words)} {redirections}; echo ${{PIPESTATUS[0]}} >&3"
    read, write = os.pipe()
    shell = subprocess.Popen(
        ["bash", "-c", f"exec 3>&{write}; {line}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(write,),
    )
    os.close(write)
    deadline = time.monotonic() + PATIENCE_S
    while not held.pid:
        assert time.monotonic() < deadline and shell.poll() is None
        time.sleep(0.05)
    held.release()
    with os.fdopen(read) as codes:
        assert codes.read().split() == [str(CODE)]
    shell.wait(PATIENCE_S)
    assert held.end == "well"


@pytest.fixture
def process_group() -> Iterator[Path]:
    """A control group in which processes are counted."""
    for root in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        folder = Path(root) / f"chimbuko-test-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
            (folder / "pids.max").read_text()
            yield folder
            folder.rmdir()
            return
    pytest.skip("no control group that counts processes can be made here")


@pytest.mark.thorough
def test_no_process_can_be_started(start: Start, held: Held, process_group: Path) -> None:
    run = start(*BARE, *held.command)
    held.wait(run)
    (process_group / "cgroup.procs").write_text(str(run.service(TITLE)))
    (process_group / "pids.max").write_text("1")
    os.kill(run.service(SERVER), signal.SIGKILL)
    os.kill(run.service(BROKER), signal.SIGKILL)
    run.wait_for_line("services ended and cannot be started again yet")
    # Later there is room again.
    (process_group / "pids.max").write_text("max")
    run.wait_for_line("services ended early and was started again")
    run.wait_until(lambda: bool(run.processes(BROKER)))
    assert_outlived(run, held)


LIMITS = [("as", 600 << 20), ("as", 300 << 20), ("nofile", 64), ("nofile", 12)]
LIMITS += [
    ("as", 4 << 30),
    ("as", 2 << 30),
    ("as", 1 << 30),
    ("as", 100 << 20),
    ("nofile", 256),
    ("nofile", 24),
]


@pytest.mark.parametrize(("kind", "limit"), first(1, LIMITS))
def test_the_shell_limits_us(held: Held, tmp_path: Path, kind: str, limit: int) -> None:
    """Either it is refused in one line before the program begins, or that has its exit code."""
    words = [*CHIMBUKO, "run", "-o", str(tmp_path / "run"), "--period", "0.2", "--", *held.command]
    process = subprocess.Popen(
        ["prlimit", f"--{kind}={limit}", "--", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    while not held.pid and process.poll() is None:
        time.sleep(0.05)
    if held.pid:
        held.release()
    said = process.communicate(timeout=PATIENCE_S)[1]
    print(said)
    assert "Traceback" not in said
    if held.pid:
        assert (process.returncode, held.end) == (CODE, "well"), said
    else:
        assert process.returncode in REFUSED, said
        assert len(said.splitlines()) == 1, said


def test_a_run_that_cannot_begin_leaves_no_folder_for_streams(start: Start, tmp_path: Path) -> None:
    """It would stay in the memory of the node."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = start("--trace-dir", tmp_path, "--port", port, "--", "touch", tmp_path / "begun")
        assert run.end() == ServiceError.exit_code and "cannot be used" in run.output
    assert list(tmp_path.iterdir()) == []


def test_a_hangup_ends_the_run_in_order(start: Start, held: Held) -> None:
    run = start(*BARE, *held.command)
    held.wait(run)
    run.process.send_signal(signal.SIGHUP)
    hung_up = 128 + signal.SIGHUP
    assert run.end() == hung_up, run.output
    assert run.info.state == "interrupted" and run.info.exit_code == hung_up
    assert "Provenance: " in run.output


@pytest.mark.thorough
def test_a_hangup_that_is_ignored_stays_ignored(held: Held, tmp_path: Path) -> None:
    words = [*CHIMBUKO, "run", "-o", str(tmp_path / "run"), *BARE, *held.command]
    process = subprocess.Popen(
        ["nohup", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not held.pid:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    os.kill(held.pid, signal.SIGHUP)
    held.release()
    assert process.wait(PATIENCE_S) == CODE
    assert held.end == "well"


def test_the_terminal_is_closed(held: Held, tmp_path: Path) -> None:
    """As by an ssh that ends: the kernel hangs up all processes of the terminal's foreground."""
    words = [*CHIMBUKO, "run", "-o", str(tmp_path / "run"), *BARE, *held.command]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    while not held.pid:
        time.sleep(0.05)
    time.sleep(LOOKS_S)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    assert Outcome(tmp_path / "run").info.state == "interrupted"
