"""Folders in a place where others may write, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.runtime.runs.scratch import is_on_network, scratch_folder


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


MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/local tmpfs rw 0 0
fast@tcp:/lustre /scratch/my\040project lustre rw 0 0
/dev/sdb /data ext4 rw 0 0
server:/data /data nfs rw 0 0
""".strip()


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/home/user/run", True),
        ("/home/local/run", False),
        ("/homework", False),
        ("/scratch/my project/run", True),
        ("/data/run", True),
        ("/tmp/run", False),
    ],
)
def test_the_deepest_mount_decides(folder: str, expected: bool) -> None:
    assert is_on_network(Path(folder), MOUNTS) is expected


def test_reads_this_machines_mounts(tmp_path: Path) -> None:
    assert is_on_network(tmp_path) in (True, False)
    assert not is_on_network(Path("/proc"))
