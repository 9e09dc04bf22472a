"""What ``chimbuko run`` loads before it starts the program: a user waits for all of that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEAVY = {"numpy", "sqlalchemy", "redis", "asyncio", "multiprocessing"}
"""Packages that take 40 to 150 ms each."""
SCRIPT = """
import sys
from chimbuko.cli import main
from chimbuko.launcher import assembly

def begin(*_, **__):
    print(*sys.modules)
    sys.exit()

assembly.begin = begin
main(["run", "-o", sys.argv[1], "--", "true"])
"""


def test_nothing_heavy_is_loaded_before_the_program_starts(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "chimbuko.launcher.controller" in loaded
    assert loaded & HEAVY == set()


def test_no_broker_is_loaded_for_a_recorded_trace(real_traces: Path, tmp_path: Path) -> None:
    """It is analysed without one, and that takes 0.09 s in each of two processes."""
    words = [
        "run",
        "--no-dashboard",
        "-o",
        str(tmp_path / "run"),
        "--trace",
        str(real_traces / "heat4" / "*.bp"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from chimbuko.cli import main; main(sys.argv[1:])", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
    )
    assert done.returncode == 0, done.stderr
    said = done.stderr + "".join(log.read_text() for log in (tmp_path / "run" / "logs").iterdir())
    loaded = {line.rpartition("|")[2].strip() for line in said.splitlines() if "import time:" in line}
    assert "chimbuko.launcher.offline.analysis" in loaded
    assert "redis" not in loaded


VALUES = """
import dataclasses, sys
from chimbuko.runtime.process.starting import load

for part in ("launcher.liverun", "launcher.services.together", "launcher.tracecontroller", "ad.agent"):
    load(f"chimbuko.{part}")
for name, module in sorted(sys.modules.items()):
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name]
    if name.startswith("chimbuko."):
        print(*(one.__qualname__ for one in own if dataclasses.is_dataclass(one)))
"""
ENTITIES = {"StreamHandle", "Rhythm", "Certificate"}
"""Classes that are no values, but have an identity."""


def test_values_of_a_run_are_structs() -> None:
    """A frozen dataclass takes 0.57 ms to be made, a Struct 0.015; a run loads 240 of them."""
    done = subprocess.run([sys.executable, "-c", VALUES], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= ENTITIES
