"""Readers of a real SST writer are killed while they join, and it goes on; other builds are left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chimbuko.capture.trace.shield import CHECKED_BUILDS, shield_environment, shield_problems, shield_states
from chimbuko.launcher.checkup import check_shield
from tests.capture.shield.kills import HUNG_S
from tests.thorough import first

KILLS = [sys.executable, str(Path(__file__).with_name("kills.py"))]


@pytest.fixture(scope="session")
def is_known() -> None:
    """Only beside a build of ADIOS2 that was checked does it act."""
    found = check_shield()
    if found.state != "ok":
        pytest.skip(found.text)


def kill_readers(folder: Path, kills: int, period_s: float, builds: tuple[str, ...]) -> dict[str, Any]:
    preloaded = shield_environment(folder, os.environ, builds)["LD_PRELOAD"]
    words = [*KILLS, "--kills", str(kills), "--period", str(period_s), "--preload", preloaded]
    environment = {**os.environ, "CHIMBUKO_SHIELD_REPORT": str(folder)}
    # What ADIOS2 says of each reader that failed is of no interest.
    done = subprocess.run(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check_unharmed(found: dict[str, Any], kills: int) -> None:
    assert found["kills"] == kills
    assert (found["died"], found["hung"]) == (0, 0)
    assert found["good_readers"] >= 1
    assert found["close_s"] < HUNG_S


@pytest.mark.usefixtures("is_known")
@pytest.mark.parametrize(("kills", "period_s"), first(1, [(16, 0.02), (5, 1.0)]))
def test_readers_that_die_while_they_join_do_no_harm(tmp_path: Path, kills: int, period_s: float) -> None:
    check_unharmed(kill_readers(tmp_path, kills, period_s, tuple(CHECKED_BUILDS)), kills)
    assert shield_states(tmp_path) == {"active": 1}
    assert shield_problems(tmp_path, streams=1) == []


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("is_known")
@pytest.mark.parametrize(("kills", "period_s"), [(120, 0.02), (60, 1.0)])
def test_many_readers_that_die_while_they_join_do_no_harm(
    tmp_path: Path, kills: int, period_s: float
) -> None:
    check_unharmed(kill_readers(tmp_path, kills, period_s, tuple(CHECKED_BUILDS)), kills)


def test_an_unknown_build_is_left_as_it_is_and_reported(tmp_path: Path) -> None:
    """No reader is killed here: there is nothing that would save the writer."""
    check_unharmed(kill_readers(tmp_path, 0, 0.02, ("other+other",)), 0)
    assert shield_states(tmp_path) == {"unknown": 1}
    (problem,) = shield_problems(tmp_path, streams=1)
    assert "off in 1 process: the ADIOS2 there (libadios2_evpath.so" in problem
    assert "use --transport files" in problem


def test_what_is_said_of_reports(tmp_path: Path) -> None:
    assert shield_problems(tmp_path / "missing") == []
    (missing,) = shield_problems(tmp_path, streams=2)
    assert "loaded by no process" in missing
    (tmp_path / "1.txt").write_text("active a+b\n")
    (tmp_path / "2.txt").write_text("")
    (tmp_path / "note").write_text("unknown a+c /usr/lib/libadios2_evpath.so.2.8\n")
    assert shield_problems(tmp_path, streams=2) == []
    for process in (3, 4, 5, 6):
        (tmp_path / f"{process}.txt").write_text("unknown a+c /opt/a folder/libadios2_evpath.so.2.9.2\n")
    (problem,) = shield_problems(tmp_path)
    assert problem.startswith("the shield against dying readers is off in 4 processes")
    assert "(libadios2_evpath.so.2.9.2)" in problem
