"""Folders in a place where others may write, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.core.files import is_own_folder, make_own_folder


def test_a_folder_is_made_for_its_owner_only_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    assert not is_own_folder(folder)
    make_own_folder(folder)
    make_own_folder(folder)
    assert is_own_folder(folder) and folder.stat().st_mode & 0o777 == 0o700


def test_what_is_not_ours_alone_is_refused(tmp_path: Path) -> None:
    link, file, shared = tmp_path / "link", tmp_path / "file", tmp_path / "shared"
    link.symlink_to(tmp_path)
    file.touch(0o600)
    shared.mkdir()
    shared.chmod(0o750)
    for folder in (link, file, shared):
        assert not is_own_folder(folder)
        with pytest.raises(ConfigError, match=f"{folder}: "):
            make_own_folder(folder)
