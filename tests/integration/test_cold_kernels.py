"""The first run after an installation: kernels are compiled once, visibly, and nothing is lost.

The compiler is real. So that it does not take half a minute each time, most kernels are in the cache already.
"""

from __future__ import annotations

import hashlib
import json
import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import chimbuko
from chimbuko.core.kernels.cache import are_compiled, note_compiled, only_one, use_cache
from tests.integration.conftest import Start
from tests.patience import PATIENCE_S

PACKAGE = Path(chimbuko.__file__).parent
PLACES = [
    str(path.relative_to(PACKAGE))
    for path in sorted((*PACKAGE.glob("kernels"), *PACKAGE.glob("*/kernels"), *PACKAGE.glob("*/*/kernels")))
]
MISSING = "label."
COMPILING = "compiling kernels, once on each kind of machine"
CALLS = 500
"""Of a function; the script itself and the program are two more."""
PROGRAM = f"def work():\n    pass\nfor _ in range({CALLS}):\n    work()\n"


def folder_in(cache: Path, place: str) -> Path:
    """Where numba keeps the kernels of a folder of sources when it is told where to keep them."""
    source = str(PACKAGE / place)
    return cache / f"{Path(source).name}_{hashlib.sha1(source.encode()).hexdigest()}"


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which one module of kernels is missing, and which this process and its children use."""
    cache = tmp_path / "cache"
    for place in PLACES:
        compiled = [*(PACKAGE / place / "__pycache__").glob("*.nb?")]
        folder_in(cache, place).mkdir(parents=True)
        for path in compiled:
            if not path.name.startswith(MISSING):
                shutil.copy(path, folder_in(cache, place))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache))
    return cache


def missing_in(cache: Path) -> list[str]:
    """Compiled kernels of the module that was missing."""
    return [path.name for path in cache.rglob(f"{MISSING}*.nbc")]


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
    assert missing_in(cold) and are_compiled(cold)
    again = start(*traced)
    assert again.end() == 0 and "kernels" not in again.output
    for one in (run, again):
        assert "Lost: nothing" in one.output
        assert [stream.calls for stream in one.health] == [CALLS + 2]


@pytest.mark.thorough
def test_on_a_terminal_the_seconds_are_shown(cold: Path, tmp_path: Path) -> None:
    output = on_a_terminal("run", "--no-dashboard", "--output", str(tmp_path / "run"), "--", "true")
    assert f"{COMPILING}; that takes some 25 s: 0 s" in output


@pytest.mark.thorough
def test_who_comes_later_waits_for_the_one_that_compiles(cold: Path, start: Start) -> None:
    with only_one(cold):
        run = start("--no-dashboard", "--", "true")
        run.wait_for_line(COMPILING)
        with pytest.raises(subprocess.TimeoutExpired):
            run.process.wait(2.0)
        # As the one that compiles notes it at its end.
        note_compiled(cold, [str(folder_in(cold, place)) for place in PLACES])
    assert run.end() == 0
    assert "kernels are compiled" in run.output and run.folder.exists()


def test_sources_that_changed_are_compiled_again(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note_compiled(cold, [str(folder_in(cold, place)) for place in PLACES])
    assert are_compiled(cold)
    monkeypatch.setenv("NUMBA_OPT", "2")
    assert not are_compiled(cold)
    monkeypatch.delenv("NUMBA_OPT")
    one = next(folder_in(cold, "ad/kernels").glob("*.nbc"))
    one.rename(one.with_name(f"older.{one.name}"))
    assert not are_compiled(cold)


def test_where_nothing_can_be_written_they_go_to_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/nowhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    cache = use_cache()
    assert cache.parent == tmp_path and os.environ["NUMBA_CACHE_DIR"] == str(cache)
    assert use_cache() == cache


@pytest.mark.thorough
def test_no_room_for_them_is_one_line_before_anything_begins(
    cold: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_file_system(cold, kilobytes=256):
        run = start("--no-dashboard", "--", "touch", cold.parent / "began")
        assert run.end() == 4
    assert f"kernels could not be compiled into {cold}" in run.lines[-1] and "No space left" in run.lines[-1]
    assert not run.folder.exists() and not (cold.parent / "began").exists()


def test_ctrl_c_ends_the_compilation(cold: Path, start: Start) -> None:
    with only_one(cold):
        run = start("--no-dashboard", "--", "true")
        run.wait_for_line(COMPILING)
        run.interrupt()
        assert run.end(20) != 0
    assert not run.folder.exists()


@pytest.mark.thorough
def test_the_check_of_a_machine_compiles_them_too(cold: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chimbuko", "doctor", "--json"], capture_output=True, text=True
    )
    (kernels,) = [finding for finding in json.loads(done.stdout) if finding["about"] == "kernels"]
    assert kernels["state"] == "warning" and kernels["text"].startswith("they were not compiled for this CPU")
    assert COMPILING in done.stderr and are_compiled(cold)


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
