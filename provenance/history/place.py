"""Place of the index that a run, or a folder of runs, belongs to."""

from __future__ import annotations

import os
from pathlib import Path

from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory, RunInfo

HISTORY_VARIABLE = "CHIMBUKO_HISTORY"
"""Environment variable with the path of an index, or the URL of a PostgreSQL store; ``none`` for none at all.
"""
FILE = "history.sqlite"
NONE = "none"


def place_of_folder(folder: Path = RUNS_FOLDER) -> str | None:
    """Return the place of the index of a folder of runs; None if nothing is to be kept."""
    given = os.environ.get(HISTORY_VARIABLE, "")
    return None if given == NONE else given or str(folder.absolute() / FILE)


def place_of_run(run: RunDirectory, info: RunInfo) -> str | None:
    """Return the place of the index that a run is entered in; None for none.

    A run that is not under ``chimbuko-runs`` is entered only where an index lies beside its folder.
    """
    if os.environ.get(HISTORY_VARIABLE):
        return place_of_folder()
    url = run.used_store_url(info)
    if not url.startswith("sqlite:"):
        return url
    folder = run.path.parent
    is_kept = folder.name == RUNS_FOLDER.name or (folder / FILE).exists()
    return str(folder / FILE) if is_kept else None
