"""Real programs, alone, traced and analysed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from tests.patience import PATIENCE_S

TRACE = [sys.executable, "-m", "chimbuko", "trace"]
OVERHEAD = [sys.executable, "-m", "chimbuko", "overhead"]
PROGRAM = """
import sys, time
def work():
    time.sleep(0.01)
for _ in range(int(sys.argv[1])):
    work()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.thorough
def test_all_three_kinds_run_in_each_round(program: Path) -> None:
    done = subprocess.run(
        [*OVERHEAD, "--rounds", "2", "--json", "--", *TRACE, str(program), "60"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {kind: len(times_s) for kind, times_s in found["times_s"].items()} == dict.fromkeys(
        ("application", "traced", "analysed"), 2
    )
    assert min(min(times_s) for times_s in found["times_s"].values()) >= 0.6
    assert found["rounds"] == 2
    assert done.stderr.count("round") == 9


@pytest.mark.thorough
def test_an_interruption_ends_the_program_and_leaves_nothing(program: Path, tmp_path: Path) -> None:
    before = set(Path(tempfile.gettempdir()).glob("chimbuko-overhead-*"))
    process = subprocess.Popen(
        [*OVERHEAD, "--", *TRACE, str(program), "100000"], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    deadline = time.monotonic() + PATIENCE_S
    while not (running := _running(program)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "nothing to compare" in said
    assert not _running(program)
    assert set(Path(tempfile.gettempdir()).glob("chimbuko-overhead-*")) == before


def _running(program: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(program) in words and "overhead" not in words and path.parent.name != str(os.getpid()):
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["true"], "the program is not traced: put 'chimbuko trace' before it"),
        (["sh", "-c", "echo last words >&2; exit 7"], "traced: ended with code 7: last words"),
        (["sh", "-c", "kill -9 $$"], "traced: ended with code 137"),
    ],
)
def test_what_cannot_be_compared_gets_one_line(command: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["overhead", "--rounds", "2", "--", *command])
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_rounds_are_at_least_two() -> None:
    assert CliRunner().invoke(main, ["overhead", "--rounds", "1", "--", "true"]).exit_code == 2
