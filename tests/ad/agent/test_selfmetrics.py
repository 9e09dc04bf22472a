"""An agent's figures: those of the kernel, for processes that are there and for those that are gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.ad.agent.agenttelemetry import Lag, cpu_s, memory_bytes, spool_bytes

GONE = 1 << 30
"""Above the highest process id."""
BUSY = """
import sys, time
kept = b"x" * 40_000_000
while time.process_time() < 0.5:
    pass
print()
sys.stdin.read()
"""


@pytest.fixture
def busy_child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds 40 MB and has used half a second."""
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        yield child
        child.stdin.close()


def test_memory_and_cpu_time_of_processes_are_added_up(busy_child: subprocess.Popen) -> None:
    own, both = [os.getpid()], [os.getpid(), busy_child.pid, GONE]
    assert 40_000_000 < memory_bytes(both) - memory_bytes(own) < 120_000_000
    assert 0.45 < cpu_s(both) - cpu_s(own) < 5.0
    assert cpu_s(own) == pytest.approx(sum(os.times()[:4]), abs=0.2)
    assert memory_bytes([GONE]) == cpu_s([GONE]) == 0


def test_the_size_of_spools(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.spool").write_bytes(bytes(1000))
    assert spool_bytes([tmp_path / "a", tmp_path / "b", tmp_path / "not there"]) == 2000


def test_lag_is_what_a_stream_is_further_behind_than_it_ever_was_least() -> None:
    """The trace is of yesterday, and stops being read for 3 s."""
    lag = Lag()
    yesterday_us = int(time.time() * 1e6) - 86_400_000_000
    for at_s, now_s in ((1, 1.5), (2, 2.2), (3, 3.4)):
        lag.note("0:1", yesterday_us + at_s * 1_000_000, yesterday_us + int((86_400 + now_s) * 1e6))
    assert lag.take_s() == pytest.approx(0.2)
    lag.note("0:1", yesterday_us + 4_000_000, yesterday_us + int((86_400 + 7.2) * 1e6))
    lag.note("0:2", yesterday_us, yesterday_us + 86_410_000_000)
    assert lag.take_s() == pytest.approx(3.0)
    assert lag.take_s() == 0.0
