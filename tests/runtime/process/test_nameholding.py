"""Names that processes hold, one at a time, which no other user of the node can take or see."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process import nameholding
from chimbuko.runtime.process.nameholding import Held, hold, is_held


def test_a_name_is_held_once_and_free_again_when_its_holder_is_gone() -> None:
    name = f"/a/long/path{'/to/go' * 100}/{os.getpid()}"
    code = "from chimbuko.runtime.process.nameholding import hold; "
    code += f"held = hold({name!r}); print(flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline()
    with pytest.raises(ServiceError, match="another process"):
        hold(name)
    assert is_held(name)
    assert not is_held(f"{name}, another")
    hold(f"{name}, another").close()
    holder.kill()
    holder.communicate()
    assert not is_held(name)
    hold(name).close()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where names are held in this test."""
    monkeypatch.setattr(nameholding, "PLACES", (tmp_path,))
    return tmp_path


def test_a_name_is_seen_by_its_user_only(place: Path) -> None:
    with hold("heat"):
        (file,) = place.iterdir()
        assert (file.stat().st_mode & 0o777, file.stat().st_uid, file.stat().st_size) == (
            0o600,
            os.getuid(),
            0,
        )
    assert list(place.iterdir()) == [file]


@pytest.mark.parametrize("planted", ["open to others", "of another user", "link", "folder", "pipe"])
def test_what_others_plant_neither_holds_a_name_nor_keeps_it_from_us(planted: str, place: Path) -> None:
    path, target = place / f"chimbuko-names-{os.getuid()}-0", place / "precious"
    target.touch(0o600)
    os.utime(target, (0, 0))
    if planted == "link":
        path.symlink_to(target)
    elif planted == "folder":
        path.mkdir(0o700)
    elif planted == "pipe":
        os.mkfifo(path, 0o600)
    elif planted == "of another user":
        path.touch(0o600)
        try:
            os.chown(path, os.getuid() + 1, -1)
        except PermissionError:
            pytest.skip("only root can give a file away")
    else:
        path.touch()
        path.chmod(0o666)
    with hold("heat"):
        assert is_held("heat")
        with pytest.raises(ServiceError, match="another process is at work"):
            hold("heat")
    assert not is_held("heat")
    assert target.stat().st_mtime == 0


def test_a_stranger_with_many_names_takes_no_descriptors(place: Path) -> None:
    """More than a process can open."""
    if os.getuid():
        pytest.skip("only root can give files away")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    for number in range(100):
        path = place / f"chimbuko-names-{os.getuid()}-{number}"
        path.touch(0o666)
        os.chown(path, os.getuid() + 1, -1)
    opened = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 50, before[1]))
    try:
        with hold("heat"):
            assert is_held("heat")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_of_many_who_are_the_first_one_holds_a_name(place: Path) -> None:
    def tried(_: int) -> Held | None:
        try:
            return hold("heat")
        except ServiceError:
            return None

    with ThreadPoolExecutor(16) as threads:
        held = [found for found in threads.map(tried, range(64)) if found is not None]
    assert len(held) == 1
    for one in held:
        one.close()
    with hold("heat"):
        assert is_held("heat")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nameholding, "PLACES", ())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(ServiceError, match=rf"heat: cannot be reserved .* make room in {tmp_path}/missing"):
        hold("heat")
    assert not is_held("heat")


def test_names_are_held_where_a_container_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nameholding, "PLACES", (tmp_path / "missing", tmp_path))
    with hold("heat"):
        assert is_held("heat") and [*tmp_path.iterdir()]
