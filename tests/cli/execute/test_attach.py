"""A program that runs already is recorded, and let go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.newerpython import newer_python
from tests.patience import PATIENCE_S
from tests.thorough import first

PROGRAM = """
import os, subprocess, sys, threading, time

def step():
    time.sleep(0.002)

def other():
    while not os.path.exists("end"):
        elsewhere()

def elsewhere():
    time.sleep(0.002)

before = os.listdir("/proc/self/fd"), dict(os.environ), list(sys.path)
thread = threading.Thread(target=other)
thread.start()
open("begun", "w").close()
while not os.path.exists("end"):
    step()
thread.join()
after = os.listdir("/proc/self/fd"), dict(os.environ), list(sys.path)
tools = [sys.monitoring.get_tool(n) for n in range(6)] if hasattr(sys, "monitoring") else []
hooks = sys.getprofile(), threading.getprofile(), set(tools) - {None}
print(before == after, *hooks, threading.active_count())
print(hasattr(os.posix_spawn, "__wrapped__"))
"""


@pytest.mark.parametrize("version", first(1, ["own", "newer"]))
def test_a_running_program_is_recorded_and_is_then_as_it_was(version: str, tmp_path: Path) -> None:
    python = sys.executable if version == "own" else newer_python()
    (tmp_path / "busy.py").write_text(PROGRAM)
    program = subprocess.Popen([python, "busy.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    words = ["attach", str(program.pid), "--for", "2s", "-o", "run", "--no-dashboard", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "chimbuko", *words],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"process {program.pid} goes on as before" in done.stderr
    (tmp_path / "end").touch()
    assert program.communicate(timeout=PATIENCE_S)[0] == "True None None set() 1\nFalse\n"
    found = subprocess.run(
        [sys.executable, "-m", "chimbuko", "sql", "--json", "run", "SELECT * FROM functions"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    names = {row["name"].partition(" ")[0] for row in json.loads(found.stdout)["rows"]}
    assert {"step", "elsewhere"} <= names
