"""What is said of a run that is over and not all stored."""

from __future__ import annotations

import os
import platform
import shlex
from pathlib import Path

import msgspec
import pytest

from chimbuko.core.config import AnalysisConfig
from chimbuko.launcher.outcome.recovery import bring_store_home, note_failed_start, recovery_lines
from chimbuko.runtime.runs.directory import new_run
from chimbuko.runtime.runs.scratch import ScratchNote, left_behind, note_run


def test_commands_can_be_pasted_whatever_the_folders_are_called(tmp_path: Path) -> None:
    run = new_run(tmp_path / "it's a $(date) run; rm -r *", ["./heat"], AnalysisConfig(), None)
    info = msgspec.structs.replace(run.read_info(), state="finished")
    folder = tmp_path / "left behind & gone"
    folder.mkdir()
    ScratchNote(run, "agents-node1", folder).write()
    (run.rescued("node2") / "agent-0").mkdir(parents=True)
    rescued, left = (shlex.split(line.partition(" do: ")[2]) for line in recovery_lines(run, info))
    assert rescued == ["chimbuko", "runs", "deliver", str(run.path)]
    assert left == ["chimbuko", "runs", "deliver", str(run.path), str(folder)]
    assert f"on {platform.node()}, do: " in recovery_lines(run, info)[1]


def test_a_note_cannot_have_folders_removed_that_were_not_made_for_the_run(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", ["./heat"], AnalysisConfig(), None)
    precious, ours = tmp_path / "precious", tmp_path / "ours"
    for folder in (precious, ours):
        folder.mkdir(0o700)
    note_run(ours, run)
    for name, folder in (("services", precious), ("agents-node1", ours)):
        ScratchNote(run, name, folder).write()
    note_failed_start(run, 3)
    assert (precious.exists(), ours.exists()) == (True, False)
    assert (run.read_info().state, run.read_info().exit_code) == ("failed", 3)
    assert left_behind(run) == []


def test_a_store_is_on_the_disk_at_home_before_the_one_it_was_copied_from_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path / "heat", ["./heat"], AnalysisConfig(), None)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / run.store_path.name).write_bytes(b"found")
    synced: list[tuple[Path, bool]] = []
    sync = os.fsync

    def note_sync(number: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{number}")), run.store_path.exists()))
        sync(number)

    monkeypatch.setattr(os, "fsync", note_sync)
    bring_store_home(run, scratch)
    assert run.store_path.read_bytes() == b"found"
    assert [has_its_name for _, has_its_name in synced] == [False, True]
    assert (synced[0][0].parent, synced[1][0]) == (run.path, run.path)
