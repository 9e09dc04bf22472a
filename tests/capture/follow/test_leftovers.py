"""What killed runs leave on a node: found and removed, unless it is somebody else's, in use, or wanted."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chimbuko.capture.follow import leftovers
from chimbuko.capture.follow.leftovers import KEPT_IN_MEMORY_S, KEPT_S, remove_folders_of, remove_leftovers
from chimbuko.capture.follow.presence import Role, announce
from chimbuko.core.config import AnalysisConfig
from chimbuko.runtime.process.nameholding import hold, place
from chimbuko.runtime.runs.directory import RunDirectory, claim_name, new_run
from chimbuko.runtime.runs.scratch import ScratchNote, agents_part, note_run, scratch_folder

PART = agents_part("node1")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    (tmp_path / "shm").mkdir()
    monkeypatch.setattr(leftovers, "MEMORY", tmp_path / "shm")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return new_run(tmp_path / "heat", ["./heat"], AnalysisConfig(), None)


def aged(folder: Path, age_s: float) -> Path:
    """The folder with a file in it, as nobody has touched it for so long."""
    (folder / "spool").touch()
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (time.time() - age_s,) * 2)
    return folder


def removed() -> list[Path]:
    """Remove leftovers; those of these tests, as others kill services at the same time."""
    return [path for path in remove_leftovers() if path.parent != place()]


def left_by(run: RunDirectory, age_s: float = 3600.0) -> Path:
    folder = scratch_folder(run.read_info().id, PART)
    note_run(folder, run)
    return aged(folder, age_s)


def end(run: RunDirectory) -> None:
    run.write_info(msgspec.structs.replace(run.read_info(), state="finished"))


def test_what_an_ended_run_left_goes_and_what_waits_to_be_stored_stays(run: RunDirectory) -> None:
    folder = left_by(run, KEPT_S + 60)
    end(run)
    note = ScratchNote(run, PART, folder)
    note.write()
    assert removed() == []
    note.remove()
    assert removed() == [folder]
    assert not folder.exists()


@pytest.mark.parametrize("becomes", ["killed", "moved", "unknown"])
def test_what_may_still_be_wanted_stays_for_a_week(becomes: str, run: RunDirectory) -> None:
    folder = left_by(run)
    if becomes == "moved":
        run.path.rename(run.path.with_name("elsewhere"))
    elif becomes == "unknown":
        (folder / "run").unlink()
    aged(folder, KEPT_S - 60)
    assert removed() == []
    aged(folder, KEPT_S + 60)
    assert removed() == [folder]


def test_streams_in_memory_go_sooner(run: RunDirectory, tmp_path: Path) -> None:
    folder = tmp_path / "shm" / f"chimbuko-{run.read_info().id}-node1"
    folder.mkdir(0o700)
    aged(folder, KEPT_IN_MEMORY_S - 60)
    assert removed() == []
    aged(folder, KEPT_IN_MEMORY_S + 60)
    assert removed() == [folder]


@pytest.fixture(params=["services", "agent", "guard", "program", "program of a node"])
def worker(request: pytest.FixtureRequest, run: RunDirectory) -> Iterator[None]:
    """Somebody at work in the run's folder."""
    folder = scratch_folder(run.read_info().id, PART)
    inner = folder / "agent-0"
    inner.mkdir()
    if request.param == "services":
        held = hold(claim_name(run.read_info().id))
    elif request.param == "agent":
        held = hold(str(inner))
    elif request.param == "guard":
        # A lock of this process is none to this process.
        code = "import sys; from chimbuko.capture.follow.presence import claim; "
        code += "claim(sys.argv[1]); print(flush=True); input()"
        guard = subprocess.Popen(
            [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert guard.stdout is not None and guard.stdout.readline()
    else:
        announce(inner if "node" in request.param else folder, "program", Role.APPLICATION)
    yield
    if request.param == "guard":
        guard.communicate()
    elif request.param in ("services", "agent"):
        held.close()


@pytest.mark.usefixtures("worker")
def test_a_folder_in_which_somebody_is_at_work_stays(run: RunDirectory) -> None:
    end(run)
    folder = left_by(run, KEPT_S + 60)
    assert removed() == []
    remove_folders_of(run.read_info().id)
    assert folder.exists()


def test_what_is_not_ours_alone_is_not_touched(temporary: Path, tmp_path: Path, run: RunDirectory) -> None:
    end(run)
    precious = tmp_path / "precious"
    precious.mkdir(0o700)
    run_id = run.read_info().id
    (temporary / f"chimbuko-{run_id}-link").symlink_to(precious)
    (temporary / f"chimbuko-{run_id}-file").touch()
    for name in (f"chimbuko-{run_id}-open", "chimbuko-kernels-0", f"chimbuko-timelines-0-{run_id}"):
        (temporary / name).mkdir(0o700)
    (temporary / f"chimbuko-{run_id}-open").chmod(0o777)
    for path in temporary.iterdir():
        os.utime(path, (0, 0), follow_symlinks=False)
    assert removed() == []
    assert len(list(temporary.iterdir())) == 5 and precious.exists()


def test_a_socket_goes_when_nobody_listens_any_more(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = temporary / "chimbuko-family-12-345"
    folder.mkdir(0o700)
    listener = socket.socket(socket.AF_UNIX)
    # A path of at most 107 bytes is taken.
    monkeypatch.chdir(folder)
    listener.bind("socket")
    listener.listen()
    aged(folder, 3600.0)
    assert removed() == []
    listener.close()
    assert removed() == [folder]


@pytest.mark.parametrize(
    "name", ["chimbuko-jobs-x1y2", "chimbuko-view-x1y2", f"chimbuko-monitor-7-{'a' * 16}"]
)
def test_folders_of_dashboards_and_monitors_go_when_these_are_dead(name: str, temporary: Path) -> None:
    folder = temporary / name
    folder.mkdir(0o700)
    if "monitor" in name:
        code = "from chimbuko.monitor.service.election import Election; from pathlib import Path; "
        code += "import os, sys; "
        code += (
            "one = Election(Path(sys.argv[1])); one.join(os.getpid()); one.lead(); print(flush=True); input()"
        )
    else:
        code = "from chimbuko.runtime.process.nameholding import hold; import sys; "
        code += "held = hold(sys.argv[1]); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None and owner.stdout.readline()
        aged(folder, 3600.0)
        assert removed() == []
        owner.kill()
    assert removed() == [folder]
    assert not folder.exists()


def test_what_is_just_being_begun_stays(temporary: Path) -> None:
    (temporary / "chimbuko-family-12-345").mkdir(0o700)
    assert removed() == []


def test_a_deleted_run_takes_its_folders_along(run: RunDirectory) -> None:
    folder, other = left_by(run), scratch_folder("0" * 12, PART)
    remove_folders_of(run.read_info().id)
    assert not folder.exists() and other.exists()


def test_another_run_may_remove_its_own_meanwhile(temporary: Path) -> None:
    """Several runs of a user on one node: one that begins looks at what those have that are just ending."""
    is_over = threading.Event()

    def come_and_go(number: int) -> None:
        folder = temporary / f"chimbuko-{number:012x}-agents-node1"
        while not is_over.is_set():
            (folder / "agent").mkdir(parents=True)
            (folder / "agent" / "spool").touch()
            shutil.rmtree(folder)

    threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            assert removed() == []
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
