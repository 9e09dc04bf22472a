"""A program that watches itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import chimbuko.monitor
from chimbuko.core.errors import ConfigError
from chimbuko.monitor.report.csvwriter import read_zerosum
from tests.patience import PATIENCE_S

PROGRAM = """
import os, sys, threading, time, chimbuko.monitor
monitor = chimbuko.monitor.start(period_s=0.1, csv=sys.argv[1], report=sys.argv[2])
assert chimbuko.monitor.start() is monitor
child = os.fork()
if not child:
    sys.exit(0)
os.waitpid(child, 0)
while time.process_time() < 1.0:
    pass
"""


def test_the_report_comes_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, "SLURM_PROCID": "2"}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    report = path.read_text()
    assert re.search(r"^MPI 002 - PID ", report, re.MULTILINE)
    kinds = dict(re.findall(r"^LWP +(\d+): +(.+?) - stime", report, re.MULTILINE))
    # A child that was forked may have been seen, too.
    assert set(kinds.values()) == {"Main", "Sampler"}
    assert list(kinds.values()).count("Sampler") == 1
    found = list(read_zerosum(tmp_path / "zs.data.2.csv"))
    assert max(one.number or 0 for one in found if one.name == "utime") > 0


def test_stop_gives_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    allowed = os.sched_getaffinity(0)
    monitor = chimbuko.monitor.start(period_s=0.05)
    lines = monitor.stop()
    assert monitor.stop() == lines
    assert any(f"PID {os.getpid()}" in line for line in lines)
    assert capsys.readouterr().err == "\n".join(lines) + "\n"
    assert os.sched_getaffinity(0) == allowed, "only the sampler's thread is bound"


def test_errors() -> None:
    with pytest.raises(ConfigError, match="period_s=0"):
        chimbuko.monitor.start(period_s=0)
    with pytest.raises(ConfigError, match="core=60000"):
        chimbuko.monitor.start(core=60000)
    with pytest.raises(ConfigError, match="/dev/null/samples: not a folder"):
        chimbuko.monitor.start(csv="/dev/null/samples")
    with pytest.raises(ConfigError, match="/no/such: no such folder"):
        chimbuko.monitor.start(report="/no/such/report.txt")
