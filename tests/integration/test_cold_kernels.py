"""The first run after an installation: kernels are compiled once, visibly, and nothing is lost.

The compiler is real, and takes half a minute; where the test is of waiting for it, it is done by hand.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chimbuko.core.errors import ServiceError
from chimbuko.core.kernels import library
from tests.calldata import no_loss
from tests.integration.conftest import Start
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.cold

COMPILING = "compiling kernels, once on each kind of machine"
CALLS = 500
"""Of a function; the script itself and the program are two more."""
PROGRAM = f"def work():\n    pass\nfor _ in range({CALLS}):\n    work()\n"


@pytest.fixture
def cold(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the library, which this process and its children use."""
    monkeypatch.setattr(library, "_loaded", {})
    folder = tmp_path / "kernels"
    folder.mkdir()
    monkeypatch.setenv(library.FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture
def built() -> Path:
    """The library that all other tests use."""
    path = library.find()
    assert path is not None
    return path


@pytest.mark.thorough
def test_the_program_waits_until_one_process_has_compiled_them(
    cold: Path, start: Start, tmp_path: Path
) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    traced = ["--no-dashboard", "--", sys.executable, "-m", "chimbuko", "trace", script]
    run = start(*traced)
    assert run.end() == 0, run.output
    said = [line for line in run.lines if "kernels" in line]
    assert said[0].startswith(f"chimbuko: {COMPILING}") and "kernels are compiled (" in said[1]
    assert library.find() == cold / library.file_name()
    # A script of Python is recorded without further words.
    again = start("--no-dashboard", script)
    assert again.end() == 0 and "kernels" not in again.output
    for one in (run, again):
        assert no_loss(one.output)
        assert [stream.calls for stream in one.health] == [CALLS + 2]


@pytest.mark.thorough
def test_on_a_terminal_the_seconds_are_shown(cold: Path, tmp_path: Path) -> None:
    output = on_a_terminal("run", "--no-dashboard", "--output", str(tmp_path / "run"), "--", "true")
    assert f"{COMPILING}; that takes some 30 s: 0 s" in output


def test_who_comes_later_waits_for_the_one_that_compiles(built: Path, cold: Path, start: Start) -> None:
    with library.only_one(cold):
        run = start("--no-dashboard", "--", "true")
        run.wait_for_line(COMPILING)
        with pytest.raises(subprocess.TimeoutExpired):
            run.process.wait(2.0)
        shutil.copy(built, cold)
    assert run.end() == 0
    assert "kernels are compiled" in run.output and run.folder.exists()


def test_only_the_library_of_these_sources_is_used(built: Path, cold: Path) -> None:
    assert not library.is_prepared()
    other = cold / library.file_name().replace("kernels_", "kernels_0")
    shutil.copy(built, other)
    assert library.find() is None
    other.rename(cold / library.file_name())
    assert library.find() == cold / library.file_name() and library.is_prepared()


def test_a_library_that_cannot_be_loaded_is_built_anew(cold: Path, start: Start) -> None:
    (cold / library.file_name()).write_bytes(b"\x7fELF of another system")
    assert not library.is_prepared()
    with library.only_one(cold):
        run = start("--no-dashboard", "--", "sleep", "100")
        run.wait_for_line(COMPILING)
        run.interrupt()
        assert run.end() == 128 + signal.SIGINT


def test_where_nothing_can_be_written_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.FOLDER_VARIABLE, "/proc/nowhere")
    with pytest.raises(ServiceError, match="no folder can be written for compiled kernels"):
        library.place()


@pytest.mark.thorough
def test_without_a_compiler_numba_compiles_them(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    done = subprocess.run([sys.executable, "-m", "chimbuko", "warmup"], capture_output=True, text=True)
    said = done.stderr.splitlines()
    assert said[0].startswith("numba compiled the kernels, as no library can be built: ")
    assert "/nowhere/cc" in said[0] and said[1].startswith("kernels are ready")
    assert library.find() is None and library.is_prepared()
    again = subprocess.run([sys.executable, "-m", "chimbuko", "warmup"], capture_output=True, text=True)
    assert again.stderr == "kernels are ready (0.0 s)\n"


@pytest.mark.thorough
def test_no_room_for_them_leaves_the_program_without_analysis(
    cold: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_file_system(cold, kilobytes=256):
        run = start("--no-dashboard", "--", "touch", cold.parent / "began")
        assert run.end() == 0
    why = f"the program runs without analysis: kernels could not be compiled into {cold}"
    assert why in run.output and (cold.parent / "began").exists()


def test_ctrl_c_ends_the_compilation(cold: Path, start: Start) -> None:
    with library.only_one(cold):
        run = start("--no-dashboard", "--", "sleep", "100")
        run.wait_for_line(COMPILING)
        run.interrupt()
        # The program's: it has begun, and ends by the same signal.
        assert run.end() == 128 + signal.SIGINT
    assert (run.info.state, run.info.exit_code) == ("failed", 128 + signal.SIGINT)


@pytest.mark.thorough
def test_the_check_of_a_machine_compiles_them_too(cold: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chimbuko", "doctor", "--json"], capture_output=True, text=True
    )
    (kernels,) = [finding for finding in json.loads(done.stdout) if finding["about"] == "kernels"]
    assert kernels["state"] == "warning" and kernels["text"].startswith("they were not compiled for this CPU")
    assert COMPILING in done.stderr and library.is_prepared()


@contextmanager
def small_file_system(folder: Path, kilobytes: int) -> Iterator[None]:
    """An empty file system in memory in place of a folder."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def on_a_terminal(*words: str) -> str:
    """All that a command shows on a terminal."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "chimbuko", *words], stdin=its, stdout=its, stderr=its, start_new_session=True
    )
    os.close(its)
    shown = b""
    while select.select([ours], [], [], 100)[0]:
        try:
            shown += os.read(ours, 1 << 16)
        except OSError:
            break
    process.wait(PATIENCE_S)
    os.close(ours)
    return shown.decode()
