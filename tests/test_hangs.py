"""The report of a test that waited too long says what its processes were doing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.hangs import WaitedTooLong, described, has_hung
from tests.integration.conftest import Command

WAITS = """
import time

def waits_for_ever():
    print("there", flush=True)
    time.sleep(1000)

waits_for_ever()
"""


@pytest.mark.parametrize("does_so", [True, False])
def test_stacks_are_written_by_those_that_can(does_so: bool, tmp_path: Path) -> None:
    began_s = time.clock_gettime(time.CLOCK_BOOTTIME) - 1.0
    environment = {**os.environ, **({"PYTHONFAULTHANDLER": "1"} if does_so else {})}
    words = [sys.executable, "-c", WAITS]
    with (
        (tmp_path / "its.log").open("w") as log,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, env=environment) as process,
    ):
        try:
            assert process.stdout is not None and process.stdout.readline() == b"there\n"
            said = described(began_s, tmp_path)
            has_ended = process.poll() is not None
        finally:
            process.kill()
    assert f"\n{process.pid} " in said
    assert ("in waits_for_ever" in said) == has_ended == does_so


def test_what_waits_for_a_command_says_for_what() -> None:
    monitor = Command("monitor", "--", "sleep", "1000")
    try:
        with pytest.raises(WaitedTooLong, match=r"'no such line' in: "):
            monitor.wait_for_line("no such line", timeout_s=0.01)
        with pytest.raises(WaitedTooLong, match=r"lambda: False"):
            monitor.wait_until(lambda: False, timeout_s=0.01)
    finally:
        monitor.process.terminate()
        monitor.end()


def test_what_counts_as_a_hang() -> None:
    with pytest.raises(pytest.fail.Exception) as timeout:
        pytest.fail("Timeout (>300.0s) from pytest-timeout.")
    assert has_hung(timeout.value) and has_hung(subprocess.TimeoutExpired("sleep", 1.0))
    assert not has_hung(AssertionError("1 == 2"))
