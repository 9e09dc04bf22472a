"""Recording from within pytest and IPython."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import time

def work(seconds):
    time.sleep(seconds)

def test_even():
    for _ in range(40):
        work(0.002)

def test_uneven():
    for at in range(40):
        work(0.4 if at == 30 else 0.002)

def test_fails():
    assert 0
"""
CELL = """
from IPython.core.interactiveshell import InteractiveShell
from chimbuko.notebook import load_ipython_extension

shell = InteractiveShell.instance()
load_ipython_extension(shell)
shell.run_cell("from cells import work\\nnumber = 40").raise_error()
loop = "for at in range(number): work(0.4 if at == 30 else 0.002)"
done = shell.run_cell(f"%%chimbuko -o run\\n{loop}\\nleft = 7")
done.raise_error()
import chimbuko
print(chimbuko.open("run")._repr_html_())
shell.run_cell("import sys; print(left, sys.getprofile())").raise_error()
"""


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True)


def test_slow_calls_are_told_with_their_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    done = ran(tmp_path, "-m", "pytest", "-p", "chimbuko.pytestplugin", "-q", "--chimbuko-folder", "run")
    assert done.returncode == 1 and "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    # A busy machine delays other calls, too.
    told = [line for line in done.stdout.splitlines() if line.startswith("test_it.py::test_uneven: ")]
    assert any("test_it.work on rank 0 took 4" in line for line in told), done.stdout
    assert (tmp_path / ".pytest_cache" / "d" / "chimbuko" / "model").exists()


def test_a_session_that_takes_warnings_for_errors_is_recorded(tmp_path: Path) -> None:
    # As pytest does with the packages of its plugins, where they are installed from a wheel.
    (tmp_path / "conftest.py").write_text("import pytest\n\npytest.register_assert_rewrite('chimbuko')\n")
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    words = ["-m", "pytest", "-p", "chimbuko.pytestplugin", "-q", "-W", "error", "--chimbuko-folder", "run"]
    done = ran(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_asks_for_nothing_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import sys\n\ndef test_it():\n    print(sorted(sys.modules))\n")
    done = ran(tmp_path, "-m", "pytest", "-p", "chimbuko.pytestplugin", "-qs")
    assert "chimbuko.pytestplugin" in done.stdout and "chimbuko.instrument" not in done.stdout
    assert list(tmp_path.glob("chimbuko-runs")) == []


def test_a_cell_is_recorded_and_leaves_its_names(tmp_path: Path) -> None:
    (tmp_path / "cells.py").write_text(TESTS)
    done = ran(tmp_path, "-c", CELL)
    assert "cells.work" in done.stdout and "rank 0 took 4" in done.stdout, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "7 None"
