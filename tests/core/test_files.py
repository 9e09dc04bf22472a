"""Files that are written atomically, and folders in a place where others may write, too."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.core.files import MOST_BYTES, contents, is_own_folder, make_own_folder, write_atomically


def test_the_new_text_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    (tmp_path / f".file-{os.getpid()}").write_bytes(b"left by one that died")
    write_atomically(path, b"new", mode=0o600)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_durable", [True, False])
def test_what_is_to_outlast_a_loss_of_power_is_synced_before_and_after_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_durable: bool
) -> None:
    done: list[tuple[str, object]] = []
    sync, rename = os.fsync, os.replace

    def note_sync(number: int) -> None:
        found = Path(os.readlink(f"/proc/self/fd/{number}"))
        done.append(("sync", "folder" if found == tmp_path else found.read_bytes()))
        sync(number)

    def note_rename(new: str, path: Path) -> None:
        done.append(("rename", path))
        rename(new, path)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_rename)
    path = tmp_path / "file"
    write_atomically(path, b"new", is_durable=is_durable)
    synced = [("sync", b"new"), ("rename", path), ("sync", "folder")]
    assert done == (synced if is_durable else [("rename", path)])


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


def test_what_is_no_file_of_a_bearable_size_is_not_read(tmp_path: Path) -> None:
    """A run's folder may be somebody else's."""
    pipe, device, large, file = (tmp_path / name for name in ("pipe", "device", "large", "file"))
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    with large.open("wb") as opened:
        opened.truncate(MOST_BYTES + 1)
    file.write_bytes(b"text")
    for path in (pipe, device, tmp_path, large, tmp_path / "nothing"):
        with pytest.raises(OSError):
            contents(path)
    assert contents(file) == b"text"


def test_a_small_file_takes_little_memory_to_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    tracemalloc.start()
    try:
        contents(tmp_path / "file")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
