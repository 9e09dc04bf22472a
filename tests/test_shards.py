"""Tests that run in forks have the outcome that they have in one process, unless they are flaky."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.patience import PATIENCE_S
from tests.places import ROOT

FAILS_ONCE = """
from pathlib import Path

def test_{name}():
    passed = Path(__file__).with_name("{name}")
    if not passed.exists():
        passed.touch()
        raise ValueError("not yet {name}")
"""
ENDS = """
import os, signal

def test_before(): pass
def test_ends(): os.kill(os.getpid(), signal.SIGKILL)
def test_after(): pass
"""
LEAVES_A_FORK = """
import os, signal
from pathlib import Path

def test_ends():
    if child := os.fork():
        Path("child").write_text(str(child))
        os._exit(0)
    signal.pause()
"""
OWN_FOLDER = """
import pytest
from pathlib import Path

@pytest.fixture(scope="session")
def used(tmp_path_factory):
    used = Path(tmp_path_factory.getbasetemp().name)
    yield used
    used.write_text("ended")
"""
BOTH_USE = """
import time
from pathlib import Path

def test_uses(used, tmp_path):
    assert tmp_path.parent.name == used.name
    used.touch()
    for _ in range(10_000):
        if len(list(Path().glob("w*"))) == 2:
            break
        time.sleep(0.01)
"""


class Outcome(NamedTuple):
    """Exit code of pytest, and what it has printed."""

    code: int
    lines: list[str]


def ran(folder: Path, files: dict[str, str]) -> Outcome:
    """Run the tests of files, which are given by their names, in two processes."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    # Not a pipe, which would be read until processes end that a test has left.
    with (folder / "output").open("w") as output:
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "tests.shards", "--processes", "2", "-ra"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=output,
            stderr=output,
            timeout=PATIENCE_S,
            check=False,
        ).returncode
    return Outcome(code, (folder / "output").read_text().splitlines())


def test_what_passes_when_it_runs_once_more_is_flaky_and_no_failure(tmp_path: Path) -> None:
    found = ran(tmp_path, {"a": FAILS_ONCE.format(name="one"), "b": "def test_passes(): pass"})
    assert found.code == 0, found.lines
    assert "E           ValueError: not yet one" in found.lines
    assert found.lines[-2] == "flaky: test_a.py::test_one"
    assert "2 passed" in found.lines[-1]


def test_three_flaky_tests_are_failures(tmp_path: Path) -> None:
    found = ran(tmp_path, {name: FAILS_ONCE.format(name=name) for name in ("one", "two", "three")})
    assert found.code == pytest.ExitCode.TESTS_FAILED
    flaky = [f"flaky: test_{name}.py::test_{name}" for name in ("one", "three", "two")]
    assert sorted(found.lines[-5:-2]) == flaky
    assert found.lines[-2] == "3 tests are flaky, at most 2 may be"
    assert "3 failed" in found.lines[-1]


def test_what_fails_twice_has_failed_in_setup_and_teardown_too(tmp_path: Path) -> None:
    files = {
        "a": "def test_fails(): assert 1 == 2\ndef test_passes(): pass",
        "b": "import pytest\n@pytest.fixture\ndef broken(): yield; 1 / 0\ndef test_ends(broken): pass",
        "c": "import pytest\n@pytest.fixture\ndef broken(): 1 / 0\ndef test_begins(broken): pass",
    }
    found = ran(tmp_path, files)
    assert found.code == pytest.ExitCode.TESTS_FAILED
    assert "FAILED test_a.py::test_fails - assert 1 == 2" in found.lines
    assert "ERROR test_b.py::test_ends - ZeroDivisionError: division by zero" in found.lines
    assert "ERROR test_c.py::test_begins - ZeroDivisionError: division by zero" in found.lines
    assert "1 failed, 2 passed, 2 errors" in found.lines[-1]
    assert not any(line.startswith("flaky: ") for line in found.lines)


def test_more_failures_than_come_by_chance_do_not_run_again(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_fails(n): assert n < 0"
    found = ran(tmp_path, {"a": text})
    assert found.code == pytest.ExitCode.TESTS_FAILED
    assert not any("runs once more" in line for line in found.lines)
    assert "6 failed" in found.lines[-1]


def test_a_test_that_ends_its_process_fails_and_those_after_it_run(tmp_path: Path) -> None:
    found = ran(tmp_path, {"a": ENDS, "b": "def test_passes(): pass"})
    assert found.code == pytest.ExitCode.TESTS_FAILED
    assert "FAILED test_a.py::test_ends - its process has ended by SIGKILL" in found.lines
    assert "1 failed, 3 passed" in found.lines[-1]


def test_the_end_of_a_process_is_noticed_while_its_child_lives(tmp_path: Path) -> None:
    found = ran(tmp_path, {"a": LEAVES_A_FORK})
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    assert "its process has ended with status 0" in found.lines
    assert "1 failed" in found.lines[-1]


@pytest.mark.parametrize(
    ("text", "code"),
    [("import nothing_of_this_name", pytest.ExitCode.INTERRUPTED), ("", pytest.ExitCode.NO_TESTS_COLLECTED)],
    ids=["an error while tests are collected", "no test"],
)
def test_no_outcome_is_no_success(tmp_path: Path, text: str, code: int) -> None:
    assert ran(tmp_path, {"a": text}).code == code


def test_each_process_has_its_own_folder_and_ends_what_it_has_begun(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(OWN_FOLDER)
    found = ran(tmp_path, dict.fromkeys("abc", BOTH_USE))
    assert found.code == 0, found.lines
    assert sorted(path.name for path in tmp_path.glob("w*")) == ["w0", "w1"]
    assert {path.read_text() for path in tmp_path.glob("w*")} == {"ended"}
