"""What is said of a run that is over and not all stored."""

from __future__ import annotations

import platform
import shlex
from pathlib import Path

import msgspec

from chimbuko.config import AnalysisConfig
from chimbuko.launcher.outcome.recovery import recovery_lines
from chimbuko.runs.directory import new_run
from chimbuko.runs.scratch import ScratchNote


def test_commands_can_be_pasted_whatever_the_folders_are_called(tmp_path: Path) -> None:
    run = new_run(tmp_path / "it's a $(date) run; rm -r *", ["./heat"], AnalysisConfig(), None)
    info = msgspec.structs.replace(run.read_info(), state="finished")
    folder = tmp_path / "left behind & gone"
    folder.mkdir()
    ScratchNote(run, "agents-node1", folder).write()
    (run.rescued("node2") / "agent-0").mkdir(parents=True)
    rescued, left = (shlex.split(line.partition(" do: ")[2]) for line in recovery_lines(run, info))
    assert rescued == ["chimbuko", "deliver", str(run.path)]
    assert left == ["chimbuko", "deliver", str(run.path), str(folder)]
    assert f"on {platform.node()}, do: " in recovery_lines(run, info)[1]
