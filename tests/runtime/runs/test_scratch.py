"""Folders in a place where others may write, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.runtime.runs.scratch import scratch_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_part_that_is_started_again_finds_its_folder(tmp_path: Path) -> None:
    folder = scratch_folder("abc", "agents-node1")
    (folder / "left").touch()
    assert scratch_folder("abc", "agents-node1") == folder
    assert folder.parent == tmp_path and (folder / "left").exists()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert scratch_folder("abc", "agents-node2") != folder


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    scratch_folder("abc", "services").chmod(0o755)
    with pytest.raises(ConfigError, match="others than you"):
        scratch_folder("abc", "services")


def test_a_link_that_somebody_has_laid_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / "chimbuko-abc-services").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="others than you"):
        scratch_folder("abc", "services")


def test_no_place_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(ConfigError, match="TMPDIR"):
        scratch_folder("abc", "services")
