"""A real trace, analysed: a run with its recorded trace beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from chimbuko.runtime.runs.directory import RunDirectory
from tests.viz.made_run import MadeRun

CALLS = {0: 30_735, 1: 39_889, 2: 39_889, 3: 30_689}
"""Of each rank, by ``tests/ad/analysis/test_wholetrace.py``."""


def traced_run(folder: Path, analysed: Path) -> MadeRun:
    """A copy of the run ``heat4_analysed``; ``MadeRun`` without what was made up."""
    shutil.copytree(analysed, folder)
    return MadeRun(RunDirectory(folder))
