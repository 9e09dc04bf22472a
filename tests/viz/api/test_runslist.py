"""The list of a folder's runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chimbuko.core.config import AnalysisConfig
from chimbuko.runtime.runs.directory import new_run
from chimbuko.viz.api.runslist import RunsList


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["mpirun", "-n", "4", "./heat2d"], "heat2d"),
        (["--trace", "traces/*.bp"], "solve, render"),
        (["chimbuko", "serve", "runs/heat"], "solve, render"),
        ([], "solve, render"),
    ],
)
def test_a_run_is_listed_with_its_programs(tmp_path: Path, command: list[str], program: str) -> None:
    run = new_run(tmp_path / "run", command, AnalysisConfig(), None)
    run.programs_path.write_bytes(msgspec.json.encode({"solve": 0, "render": 1}))
    (listed,) = RunsList(tmp_path).answer().runs
    assert listed.program == program
