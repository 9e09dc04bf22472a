"""Code that a running Python is brought to run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.tracer.injection import Target, inject
from tests.newerpython import newer_python
from tests.patience import PATIENCE_S

WAITS = """
import sys, threading, time
lines = iter(sys.stdin.readline, "")
threading.Thread(target=list, args=[lines], daemon=True).start()
end = time.monotonic() + 60
while not hasattr(sys, "told") and time.monotonic() < end:
    before = time.monotonic()
    time.sleep(0.02)
    assert time.monotonic() - before >= 0.02
print(sys.told, "left" in globals())
"""


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has begun."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        name = os.path.basename(words[0])
        deadline = time.monotonic() + PATIENCE_S
        while Path(f"/proc/{process.pid}/comm").read_text().strip() not in (name, os.path.realpath(name)):
            if "python" in name or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.communicate()


def told(python: str) -> str:
    """What a program says that was brought to know something, twenty times."""
    with running(python, "-c", WAITS) as process:
        deadline = time.monotonic() + PATIENCE_S
        # An interpreter that has only begun has no threads.
        while len(os.listdir(f"/proc/{process.pid}/task")) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        target = Target(process.pid)
        target.check()
        for _ in range(20):
            inject(target, "import sys; left = 1; sys.heard = getattr(sys, 'heard', 0) + 1")
            time.sleep(0.005)
        inject(target, "import sys; sys.told = sys.version_info[:2] + (sys.heard,)")
        return process.communicate(timeout=PATIENCE_S)[0].strip()


def test_code_runs_once_and_leaves_no_names() -> None:
    assert told(sys.executable) == f"{(*sys.version_info[:2], 20)} False"


def test_code_runs_in_a_newer_python() -> None:
    assert told(newer_python()).endswith("20) False")


def test_what_is_no_python_is_refused_with_what_can_be_done() -> None:
    with (
        running("sleep", "60") as process,
        pytest.raises(ConfigError, match=r"no Python program.*monitor --pid"),
    ):
        Target(process.pid).check()


def test_a_process_that_is_gone_is_named() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(ConfigError, match=f"{process.pid}: no such process here"):
        Target(process.pid)
