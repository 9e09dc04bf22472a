"""An application under TAU's settings is never harmed by its readers; the stand-in plays the application."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chimbuko.trace.discovery import find_live
from chimbuko.trace.tau import application_settings
from tests.trace.whole_streams import read_live
from tests.tracer.traced_program import environment

TAU_EXEC = [sys.executable, str(Path(__file__).parent / "tau_exec"), "-T", "mpi,pthread", "-adios2_trace"]


def settings(folder: Path, period_us: int = 100_000) -> dict[str, str]:
    (folder / "trace").mkdir()
    return application_settings(folder, folder / "trace", period_us, {})


def start(folder: Path, seconds: float, **variables: str) -> subprocess.Popen[str]:
    report = {"STAND_IN_REPORT": str(folder / "report.json")}
    return subprocess.Popen(
        [*TAU_EXEC, "sh", "-c", f"sleep {seconds}; exit 4"],
        env=environment(**settings(folder), **report, **variables),
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_stream(folder: Path) -> Path:
    while not (found := find_live(folder / "trace")):
        time.sleep(0.01)
    return found[0].path


def read_for_ever(path: Path, has_read: multiprocessing.synchronize.Event) -> None:
    read_live(path, 2)
    has_read.set()
    read_live(path)


def test_application_without_any_reader_runs_to_its_end(tmp_path: Path) -> None:
    with start(tmp_path, 0.5, PMI_RANK="3") as application:
        assert wait_for_stream(tmp_path).name == "tau-metrics-sh-3.bp"
    assert application.returncode == 4
    assert json.loads((tmp_path / "report.json").read_text())["steps"] >= 2


def test_readers_that_come_late_are_killed_and_come_again_do_no_harm(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with start(tmp_path, 4) as application:
        path = wait_for_stream(tmp_path)
        for _ in range(2):
            has_read = context.Event()
            reader = context.Process(target=read_for_ever, args=(path, has_read))
            reader.start()
            assert has_read.wait(20)
            reader.kill()
            reader.join()
        steps = read_live(path, 3)
        assert application.poll() is None
        assert len(steps[-1].events) > 0
        assert steps[-1].names.timers[2] == "step [{app.c} {20,0}]"
    assert application.returncode == 4
    # Over all of it no step took as long as a wait for a reader would.
    assert json.loads((tmp_path / "report.json").read_text())["steps"] > 10


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"TAU_ADIOS2_SELECT_FILE": ""}, "does not exclude SST's own timers"),
        ({"TAU_ADIOS2_CONFIG_FILE": ""}, "waits for a reader"),
        ({"TAU_ADIOS2_CONFIG_FILE": "other.xml"}, "no io named"),
    ],
)
def test_settings_that_would_hang_tau_are_refused(
    tmp_path: Path, broken: dict[str, str], reason: str
) -> None:
    (tmp_path / "other.xml").write_text(
        '<adios-config><io name="other"><engine type="SST"/></io></adios-config>'
    )
    done = subprocess.run(
        [*TAU_EXEC, "true"],
        cwd=tmp_path,
        env=environment(**{**settings(tmp_path), **broken}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 99
    assert reason in done.stderr
