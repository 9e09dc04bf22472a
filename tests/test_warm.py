"""What is forked from a warm Python is as what was started."""

from __future__ import annotations

import inspect
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.warm import Warm, warm_starts

SAYS_WHAT_IT_IS = """
import json, os, resource, sys
# It names the process, and is another one each time.
del os.environ["CHIMBUKO_FAMILY"]
status = dict(map(str.strip, line.split(":", 1)) for line in open("/proc/self/status"))
print(json.dumps({
    "words": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ), "path": sys.path,
    "parent": os.getppid(), "group": os.getpgid(0) == os.getpid(), "session": os.getsid(0) == os.getpid(),
    "umask": status["Umask"], "cores": status["Cpus_allowed"],
    "signals": [status[name] for name in ("SigBlk", "SigIgn")],
    "limits": [resource.getrlimit(one) for one in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)],
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
    "kept": os.readlink(f"/proc/self/fd/{sys.argv[1]}"), "input": sys.stdin.read(),
}))
"""
PROGRAM = "says.py"

pytestmark = pytest.mark.cold


@pytest.fixture
def unusual() -> Iterator[int]:
    """Number of a descriptor, in a process that has been told to be otherwise than most."""
    reading, writing = os.pipe()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), os.umask(0o27), os.sched_getaffinity(0)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[0] - 1, limits[1]))
    os.sched_setaffinity(0, {min(before[2])})
    yield writing
    os.sched_setaffinity(0, before[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    signal.signal(signal.SIGHUP, before[0])
    os.umask(before[1])
    os.close(reading)
    os.close(writing)


def said(is_forked: bool, *words: str, **options: Any) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "chimbuko", *words]
    with warm_starts() if is_forked else nullcontext():
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
    output, errors = process.communicate("heard", timeout=PATIENCE_S)
    return process.returncode, output, errors


@pytest.mark.parametrize("has_own_session", [False, True])
def test_it_has_what_it_was_given_and_nothing_else(
    has_own_session: bool, tmp_path: Path, unusual: int
) -> None:
    (tmp_path / PROGRAM).write_text(SAYS_WHAT_IT_IS)
    options = {
        "cwd": tmp_path,
        "env": {**os.environ, "CHIMBUKO_TEST": "é", "PYTHONUNBUFFERED": "1"},
        "pass_fds": [unusual],
        "start_new_session": has_own_session,
    }
    forked, started = (
        said(is_forked, "trace", PROGRAM, str(unusual), **options) for is_forked in (True, False)
    )
    assert started[0] == 0, started[2]
    facts = json.loads(started[1])
    assert (facts["parent"], facts["input"], facts["session"]) == (os.getpid(), "heard", has_own_session)
    assert json.loads(forked[1]) == facts
    assert forked[::2] == started[::2]


@pytest.mark.parametrize("words", [("--version",), ("query", "nowhere"), ("query", "--limit", "none")])
def test_it_says_the_same_and_ends_alike(words: tuple[str, ...], tmp_path: Path) -> None:
    assert said(True, *words, cwd=tmp_path) == said(False, *words, cwd=tmp_path)


def test_it_is_killed_as_others_are() -> None:
    with warm_starts():
        process = subprocess.Popen([sys.executable, "-m", "chimbuko", "monitor", "--", "sleep", "100"])
    process.kill()
    assert process.wait(PATIENCE_S) == -signal.SIGKILL


USUAL = inspect.signature(subprocess.Popen).bind([sys.executable, "-m", "chimbuko", "runs"])
USUAL.apply_defaults()
IDS = {"gid": None, "gids": None, "uid": None}
"""What ``subprocess`` makes of what it was given."""


@pytest.mark.parametrize(
    ("otherwise", "can_fork"),
    [
        ({}, True),
        ({"env": {**os.environ, "CHIMBUKO_TOKEN": "secret", "PYTHONUNBUFFERED": "1"}}, True),
        ({"env": {**os.environ, "PYTHONWARNINGS": "default"}}, False),
        ({"env": {}}, False),
        ({"preexec_fn": os.setsid}, False),
        ({"umask": 0o77}, False),
        ({"uid": 0}, False),
        ({"process_group": 0}, False),
        ({"close_fds": False}, False),
        ({"shell": True}, False),
        ({"args": [sys.executable, "-P", "-m", "chimbuko"]}, False),
        ({"args": [sys.executable, "-m", "chimbuko.ad.agent"]}, False),
        ({"args": "chimbuko"}, False),
    ],
)
def test_what_a_fork_would_not_heed_is_started(otherwise: dict[str, Any], can_fork: bool) -> None:
    assert Warm().can_fork({**USUAL.arguments, **IDS, **otherwise}) == can_fork
