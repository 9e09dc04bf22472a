"""What is forked from a warm Python is as what was started."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.warm import warm_starts

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


@pytest.mark.parametrize(("variables", "is_forked"), [({}, True), ({"PYTHONWARNINGS": "default"}, False)])
def test_what_is_read_early_makes_a_real_start(variables: dict[str, str], is_forked: bool) -> None:
    command = [sys.executable, "-m", "chimbuko", "monitor", "--", "sleep", "100"]
    with warm_starts():
        process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE)
    words = Path(f"/proc/{process.pid}/cmdline")
    deadline_s = time.monotonic() + PATIENCE_S
    while b"tests.warm" in words.read_bytes():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert (len(words.read_bytes().rstrip(b"\0").split(b"\0")) == 1) == is_forked
    process.kill()
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    process.communicate()
