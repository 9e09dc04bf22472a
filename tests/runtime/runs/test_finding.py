"""Runs elsewhere are noted, found again, and forgotten when they are gone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.launcher.assembly import run_with_store
from chimbuko.runtime.runs import finding
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory
from chimbuko.runtime.runs.finding import find_run, noted_runs


def made(folder: Path) -> RunDirectory:
    return run_with_store(folder, ["./app"], AnalysisConfig(), None)


def test_runs_elsewhere_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, near = made(tmp_path / "scratch" / "heat"), made(tmp_path / "home" / RUNS_FOLDER / "near")
    assert noted_runs() == [elsewhere]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="name one that 'chimbuko runs' lists"):
        find_run(None)
    monkeypatch.chdir(tmp_path / "home")
    assert find_run(Path("heat")) == find_run(Path(elsewhere.read_info().id)) == elsewhere
    assert find_run(Path("near")) == find_run(None) == near
    # What is near comes first.
    assert find_run(Path(made(Path(RUNS_FOLDER) / "heat").path.name)).path.parent.name == RUNS_FOLDER.name


def test_two_of_a_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    both = [made(tmp_path / place / "heat") for place in ("a", "b")]
    with pytest.raises(ConfigError, match="2 runs have this name") as refused:
        find_run(Path("heat"))
    assert all(str(run.path) in str(refused.value) for run in both)


def test_what_is_gone_is_forgotten_and_what_is_not_mounted_is_not(tmp_path: Path) -> None:
    kept, removed, away, other = (made(tmp_path / place / "run") for place in "abcd")
    shutil.rmtree(removed.path)
    shutil.rmtree(other.path)
    # Another one, which was not noted, is in its place.
    shutil.copytree(kept.path, other.path)
    (tmp_path / "c").rename(tmp_path / "unmounted")
    assert noted_runs() == [kept]
    assert set(finding.noted().values()) == {kept.path, away.path}
    (tmp_path / "unmounted").rename(tmp_path / "c")
    assert noted_runs() == [kept, away]


def test_notes_that_are_damaged_or_cannot_be_written_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path / "run")
    notes = Path(os.environ["XDG_STATE_HOME"]) / "chimbuko" / "runs"
    assert (notes / run.read_info().id).read_text() == f"{run.path}\n"
    (notes / "empty").touch()
    (notes / "binary").write_bytes(b"\xff\x00\n")
    (notes / "null").write_bytes(b"/a\x00b\n")
    (notes / "folder").mkdir()
    assert noted_runs() == [run]
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    made(tmp_path / "another")
    assert noted_runs() == []
