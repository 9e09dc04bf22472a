"""When a program is ended from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from chimbuko.monitor.service.program import Endings, LogWatch
from tests.patience import PATIENCE_S

SLEEP = "import time, signal\nprint(1, flush=True)\ntime.sleep(100)"


def test_a_log_that_stands_still(tmp_path: Path) -> None:
    path = tmp_path / "log"
    endings = Endings(LogWatch(path, 10.0))
    assert not endings.reason(0.0)
    path.write_text("a")
    assert not endings.reason(9.0)
    assert not endings.reason(18.0)
    path.write_text("ab")
    assert not endings.reason(20.0)
    assert endings.reason(30.0) == f"{path} has not changed for 10 s"


def test_a_log_that_never_comes(tmp_path: Path) -> None:
    endings = Endings(LogWatch(tmp_path / "log", 10.0))
    assert not endings.reason(5.0)
    assert endings.reason(15.0)


def run(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "chimbuko", "monitor", "--period", "100ms", *options]
    return subprocess.Popen(
        [*command, "--", sys.executable, "-c", SLEEP],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_program_is_ended_with_the_exit_code_of_timeout(tmp_path: Path) -> None:
    process = run(tmp_path, "--watch-log", str(tmp_path / "log"), "--time-out", "1s")
    _, report = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 124
    assert "has not changed for" in report and "Duration of execution" in report


def test_a_stop_file(tmp_path: Path) -> None:
    process = run(tmp_path, "--stop-file", str(tmp_path / "stop"))
    assert process.stdout is not None
    process.stdout.readline()
    (tmp_path / "stop").touch()
    _, report = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + 15
    assert f"{tmp_path / 'stop'} is there: the program is ended" in report
