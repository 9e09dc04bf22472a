"""The application outlives the launcher; the process that the user has started passes its exit code on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from chimbuko.capture.follow.starter import MODULE as GUARD
from chimbuko.launcher.application import TITLE
from tests.integration.conftest import Start
from tests.integration.held import CODE, Held

pytestmark = pytest.mark.cold


def test_a_launcher_that_is_killed_takes_neither_program_nor_exit_code_with_it(
    start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "application"
    folder.mkdir()
    held = Held(folder)
    run = start("--no-dashboard", "--", *held.command)
    held.wait(run)
    os.kill(run.service(TITLE), signal.SIGKILL)
    run.wait_for_line("the analysis has ended early (signal 9); the program goes on")
    held.release()
    assert run.end() == CODE, run.output
    assert held.end == "well"


def test_streams_have_a_guard_though_it_is_killed_after_the_launcher(start: Start, tmp_path: Path) -> None:
    """Nobody would bound what the program writes, nor remove it."""
    folder = tmp_path / "application"
    folder.mkdir()
    held = Held(folder)
    run = start("--no-dashboard", "--", *held.command)
    held.wait(run)
    before = run.service(GUARD)
    os.kill(run.service(TITLE), signal.SIGKILL)
    run.wait_for_line("the analysis has ended early (signal 9); the program goes on")
    os.kill(before, signal.SIGKILL)
    run.wait_until(lambda: run.service(GUARD) != before)
    held.release()
    assert run.end() == CODE, run.output


def test_the_program_has_none_of_our_settings(start: Start, tmp_path: Path) -> None:
    reported = tmp_path / "told"
    run = start(
        "--no-dashboard", "--", "sh", "-c", f"env > {reported}; cat /proc/self/oom_score_adj >> {reported}"
    )
    assert run.end() == 0, run.output
    lines = reported.read_text().splitlines()
    assert lines[-1] == Path("/proc/self/oom_score_adj").read_text().strip()
    names = {line.partition("=")[0] for line in lines}
    assert not names & {"CHIMBUKO_OOM_SCORE_ADJ", "CHIMBUKO_BROKER", "OPENBLAS_NUM_THREADS"} - set(os.environ)
