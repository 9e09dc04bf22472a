"""Whatever happens to the analysis, the application ends normally, in its time, with all steps written.

TAU cannot be installed here: a stand-in for `tau_exec` obeys the settings that `chimbuko run` makes, and
writes as TAU does, from the thread that computes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import STAND_IN, Run, Start

PERIOD_S = 0.2
SECONDS = 8
LONGEST_STEP_S = 3.0
"""A step that waited for a reader would take until that comes again; a busy machine needs some time, too."""

Beside = Callable[[], Run]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Where the stand-in says what it measured."""
    return tmp_path / "report.json"


@pytest.fixture
def beside(start: Start, report: Path) -> Beside:
    """Starts a run around the stand-in."""

    def start_beside() -> Run:
        program = [*STAND_IN, "-T", "mpi,pthread", "-adios2_trace", sys.executable, "-c"]
        program.append(f"import time; time.sleep({SECONDS}); raise SystemExit(5)")
        environment = {"STAND_IN_REPORT": str(report)}
        return start("--period", str(PERIOD_S), "--no-dashboard", "--", *program, environment=environment)

    return start_beside


def wait_until(condition: Callable[[], bool], run: Run, timeout_s: float = 30.0) -> None:
    """Wait for a condition by asking for it."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline and run.process.poll() is None, run.output
        time.sleep(0.05)


def readers(run: Run) -> list[int]:
    """Processes of the streams: what the fork server has forked."""
    return run.processes("chimbuko.ad.forkserver")[1:]


def steps(run: Run) -> int:
    """Steps that are in the store."""
    return sum(stream.steps for stream in run.health_so_far)


def check_application(run: Run, report: Path) -> dict[str, float]:
    """It ended with its own code, and was never held up."""
    assert run.end() == 5, run.output
    measured: dict[str, float] = json.loads(report.read_text())
    assert measured["steps"] > SECONDS / PERIOD_S / 4
    assert measured["worst_step_s"] < LONGEST_STEP_S
    return measured


def test_undisturbed(beside: Beside, report: Path) -> None:
    run = beside()
    measured = check_application(run, report)
    (stream,) = run.health
    assert stream.state == "ended"
    # SST lets a reader in at one step and gives it the next: the first ones before that are gaps.
    assert stream.steps + stream.gap_steps == measured["steps"]
    assert stream.gap_steps <= 1 / PERIOD_S + 2


def test_reader_dies_and_comes_again(beside: Beside, report: Path) -> None:
    run = beside()
    for _ in range(3):
        wait_until(lambda: bool(readers(run)), run)
        victim = readers(run)[0]
        before = steps(run)
        wait_until(lambda before=before: steps(run) > before, run)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda victim=victim: readers(run) not in ([], [victim]), run)
    measured = check_application(run, report)
    (stream,) = run.health
    assert stream.state == "ended"
    assert stream.steps + stream.gap_steps == measured["steps"]


def test_stuck_reader_is_replaced(beside: Beside, report: Path) -> None:
    run = beside()
    wait_until(lambda: steps(run) > 0, run)
    victim = readers(run)[0]
    os.kill(victim, signal.SIGSTOP)
    wait_until(lambda: bool(readers(run)) and victim not in readers(run), run)
    measured = check_application(run, report)
    (stream,) = run.health
    assert stream.state == "ended"
    assert stream.steps + stream.gap_steps == measured["steps"]


@pytest.mark.parametrize(
    "module",
    ["chimbuko.ad.agent", "chimbuko.provenance.service", "valkey-server", "chimbuko.pserver.service"],
)
def test_killed_service_harms_nothing(module: str, beside: Beside, report: Path) -> None:
    run = beside()
    wait_until(lambda: steps(run) > 0, run)
    os.kill(run.processes(module)[0], signal.SIGKILL)
    if module == "chimbuko.ad.agent":
        before = steps(run)
        wait_until(lambda: steps(run) != before, run)
    check_application(run, report)
    assert "ended early" in run.output
    (stream,) = run.health
    assert stream.calls > 0
    if module != "chimbuko.pserver.service":
        assert stream.state == "ended", run.output
    assert run.processes("chimbuko") == []


def test_refuses_settings_that_would_hang_tau(start: Start, tmp_path: Path) -> None:
    """The stand-in itself fails where real TAU would wait for ever: the settings are what keeps it alive."""
    run = start("--no-dashboard", "--", "env", "-u", "TAU_ADIOS2_SELECT_FILE", *STAND_IN, "true")
    assert run.end() == 99
