"""A file that is written atomically."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chimbuko.atomicfile import write_atomically


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
