"""A program that nothing records is told so while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.launcher.liverun import SAID_AFTER_S, UnrecordedProgram


def test_it_is_said_once_and_in_time(tmp_path: Path) -> None:
    program = UnrecordedProgram(["mpirun", "-n", "4", "./app"], tmp_path, 10.0)
    assert program.news(10.0 + SAID_AFTER_S - 0.1) == ""
    assert "Put 'chimbuko trace' in front of the program itself" in program.news(10.1 + SAID_AFTER_S)
    assert program.news(100.0) == ""
    assert SAID_AFTER_S < 5.0


def test_program_that_is_recorded_hears_nothing(tmp_path: Path) -> None:
    (tmp_path / "tau-metrics-app-0.bp").mkdir()
    assert UnrecordedProgram(["./app"], tmp_path, 0.0).news(100.0) == ""
    assert UnrecordedProgram(["./app"], tmp_path / "removed", 0.0).news(100.0) == ""


@pytest.mark.parametrize(
    "words", ["mpirun -n 4 tau_exec -adios2_trace ./app", "mpirun /bin/chimbuko trace ./app"]
)
def test_one_that_is_about_to_be_has_its_time(words: str, tmp_path: Path) -> None:
    assert UnrecordedProgram(words.split(), tmp_path, 0.0).news(100.0) == ""
