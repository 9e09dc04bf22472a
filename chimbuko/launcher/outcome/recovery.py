"""What a run that died has left in folders on its nodes' own storage, and how it comes into its store."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from chimbuko.provenance.manage.lifecycle import DIED, RUNNING, state_of
from chimbuko.runs.directory import RunDirectory, RunInfo
from chimbuko.runs.scratch import left_behind


def recovery_lines(run: RunDirectory, info: RunInfo) -> list[str]:
    """What a user is told of a run that is over but not all stored: what happened, and what to do."""
    state = state_of(run, info)
    if state == RUNNING:
        return []
    lines = []
    for _, left in left_behind(run):
        command = shlex.join(["chimbuko", "deliver", str(run.path), left.folder])
        lines.append(f"{info.name}: not all that was found is stored; on {left.host}, do: {command}")
    if state == DIED:
        stored = "" if lines else "; what was found until then is stored"
        lines.insert(0, f"{info.name}: the run died: its processes were killed before its end{stored}")
    return lines


def report_recovery(run: RunDirectory) -> None:
    """Say on standard error what is to be known before a run is looked at."""
    for line in recovery_lines(run, run.read_info()):
        print(f"chimbuko: {line}", file=sys.stderr)


def bring_store_home(run: RunDirectory, scratch: Path) -> None:
    """Copy the store of a run on a network file system, which was on local storage, into its folder.

    Raises
    ------
    OSError
        It cannot be copied; what was in the folder is as it was.
    """
    # With what was put aside because it was damaged. Its log first: with the file itself the store is there.
    for path in sorted(scratch.glob(f"{run.store_path.name}*"), reverse=True):
        copy = run.path / f"{path.name}.tmp"
        shutil.copyfile(path, copy)
        os.replace(copy, run.path / path.name)
