"""What ``chimbuko run`` loads before it starts the program: a user waits for all of that."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"numpy", "sqlalchemy", "redis", "asyncio", "multiprocessing"}
"""Packages that take 40 to 150 ms each."""


def test_nothing_heavy_is_loaded_before_the_program_starts() -> None:
    words = "import sys; import chimbuko.cli.execute.run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "chimbuko.launcher.controller" in loaded
    assert loaded & HEAVY == set()
