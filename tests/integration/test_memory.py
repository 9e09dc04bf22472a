"""Where memory comes to an end, our processes do before the application."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from chimbuko.launcher.application import TITLE
from chimbuko.runtime.process.lifetime import Sacrifice
from tests.integration.conftest import (
    AGENT,
    BROKER,
    FORK_SERVER,
    SERVER,
    STORE,
    Start,
    children,
    command_line,
    descendants,
)
from tests.integration.held import CHIMBUKO, CODE
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.cold

WRITER = "chimbuko.instrument.extensions.writerserver"
GUARD = "chimbuko.capture.follow.guard"
TICKING = """
import sys, time
def tick(room):
    time.sleep(0.01)
    room.append(bytearray(int(sys.argv[2])))
room, n = [], 0
while n < int(sys.argv[1]):
    tick(room)
    n += 1
"""
"""A program that takes some memory, all of which it uses, in each of its calls."""
OWN = 100
"""What the launcher was started with."""


def score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@pytest.fixture
def higher() -> Iterator[None]:
    """As a scheduler may start us."""
    own = Path("/proc/self/oom_score_adj")
    before = own.read_text()
    own.write_text(str(OWN))
    yield
    with suppress(PermissionError):
        own.write_text(before)


def processes(module: str, word: str) -> list[int]:
    """Processes that are nobody's children: with a word on their command line, or in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (path / "cmdline").read_text()
            if module in line and word in line + (path / "environ").read_text():
                found.append(int(path.name))
    return found


@pytest.mark.thorough
@pytest.mark.usefixtures("higher")
def test_all_of_ours_end_before_the_application(start: Start, tmp_path: Path) -> None:
    program = [*CHIMBUKO, "trace", ticking(tmp_path), "10000", "0"]
    words = ["--dashboard-processes", "2", "--trace-dir", tmp_path, "--period", "0.2"]
    run, place = start(*words, "--", "sh", "-c", 'sleep 300 & "$@"', "-", *program), str(tmp_path)
    assert requests.get(run.dashboard_url(), timeout=PATIENCE_S).status_code == 200
    run.wait_until(lambda: bool(run.health_so_far) and bool(run.readers) and bool(processes(WRITER, place)))
    (application,) = [pid for pid in children(run.process.pid) if "sleep 300" in command_line(pid)]
    theirs = [application, *descendants(application)]
    assert len(theirs) >= 3
    assert {score(pid) for pid in (run.process.pid, *theirs)} == {OWN}
    (guard,) = processes(GUARD, place)
    assert score(guard) == OWN + Sacrifice.GUARD
    (server,) = run.processes(FORK_SERVER)
    expected = {
        **dict.fromkeys(run.processes(TITLE), Sacrifice.LAUNCHER),
        **dict.fromkeys(run.processes(BROKER), Sacrifice.BROKER),
        **dict.fromkeys([*run.processes(SERVER), *run.processes(STORE)], Sacrifice.SERVICE),
        **dict.fromkeys([*run.processes(AGENT), server], Sacrifice.AGENT),
        **dict.fromkeys(run.processes("chimbuko.viz"), Sacrifice.DASHBOARD),
        **dict.fromkeys(processes(WRITER, place), Sacrifice.WRITER),
        **dict.fromkeys(run.readers, Sacrifice.READER),
    }
    assert len(expected) >= 10
    assert {pid: score(pid) - OWN for pid in expected} == expected
    assert min(expected.values()) == Sacrifice.LAUNCHER and max(expected.values()) == Sacrifice.READER
    # One that an agent starts has no more.
    os.kill(guard, signal.SIGKILL)
    run.wait_until(lambda: processes(GUARD, place) not in ([], [guard]))
    run.wait_until(lambda: {score(pid) - OWN for pid in processes(GUARD, place)} == {Sacrifice.GUARD})
    for pid in theirs[1:]:
        os.kill(pid, signal.SIGTERM)
    run.end()


class Group:
    """A control group with a limit on memory."""

    def __init__(self, name: str) -> None:
        versions = {"/sys/fs/cgroup/memory": ("memory.limit_in_bytes",), "/sys/fs/cgroup": ("memory.max",)}
        self._limit = ""
        for root, (limit,) in versions.items():
            self.folder = Path(root) / name
            with suppress(OSError):
                self.folder.mkdir()
                self._limit = limit
                (self.folder / limit).read_text()
                return
        pytest.skip("no control group with a limit on memory can be made here")

    def limit(self, size_bytes: int) -> None:
        """So much and no more."""
        (self.folder / self._limit).write_text(str(size_bytes))

    def enter(self) -> None:
        """For ``preexec_fn``."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def used_bytes(self) -> int:
        """What its processes have taken, without what is cached of files."""
        text = (self.folder / "memory.stat").read_text()
        return sum(map(int, re.findall(r"^(?:total_rss|anon) (\d+)$", text, re.MULTILINE)))


@pytest.fixture
def group() -> Iterator[Group]:
    one = Group(f"chimbuko-test-{os.getpid()}")
    yield one
    for pid in (one.folder / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while one.folder.exists():
        with suppress(OSError):
            one.folder.rmdir()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def settled_bytes(group: Group) -> int:
    """What a group's processes have taken, once they take no more."""
    looks = [group.used_bytes()]
    while len(looks) < 10 or max(looks[-10:]) - min(looks[-10:]) > STEADY_BYTES:
        time.sleep(0.05)
        looks.append(group.used_bytes())
    return looks[-1]


def ticking(folder: Path) -> str:
    path = folder / "ticking.py"
    path.write_text(TICKING)
    return str(path)


STEADY_BYTES = 1 << 20
ROOM_BYTES = 64 << 20
TAKES_BYTES = 48 << 20
"""Beside what Python and the tracer take, 40 MB. All of ours take 120 MB, most of it shared."""


def test_an_application_that_needs_our_memory_gets_it(group: Group, tmp_path: Path) -> None:
    """It takes more than there is beside us, and all that it does is done."""
    calls, room = 400, tmp_path / "room"
    held = f"touch {tmp_path / 'started'}; while [ ! -e {room} ]; do sleep 0.1; done"
    traced = shlex.join([*CHIMBUKO, "trace", ticking(tmp_path), str(calls), str(TAKES_BYTES // calls)])
    script = f"{held}; {traced}; code=$?; [ $code = 0 ] && exit {CODE}; exit $code"
    words = [*CHIMBUKO, "run", "-o", str(tmp_path / "run"), "--period", "0.2", "--", "sh", "-c", script]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=group.enter)
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.02)
    before = settled_bytes(group)
    group.limit(before + ROOM_BYTES)
    room.touch()
    said = process.communicate(timeout=PATIENCE_S)[1]
    print(f"{before >> 20} MB before\n{said}")
    assert process.returncode == CODE, said
    assert "Traceback" not in said
    assert "ended early" in said or "cannot be started again" in said
