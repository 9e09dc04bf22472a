"""A real trace, analysed: a run with its recorded trace beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from chimbuko.runs.directory import RunDirectory
from tests.viz.made_run import MadeRun

CALLS = {0: 30_735, 1: 39_889, 2: 39_889, 3: 30_689}
"""Of each rank, by ``tests/ad/analysis/test_wholetrace.py``."""


def traced_run(folder: Path, traces: Path) -> MadeRun:
    """The run of four ranks that exchange rows; ``MadeRun`` without what was made up."""
    chimbuko("run", "--trace", traces / "heat4" / "*.bp", "--output", folder, "--no-dashboard")
    return MadeRun(RunDirectory(folder))


def chimbuko(*words: str | Path) -> str:
    """What a command of ours prints."""
    command = [sys.executable, "-m", "chimbuko", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
