"""What ``chimbuko run`` loads before it starts the program: a user waits for all of that."""

from __future__ import annotations

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
