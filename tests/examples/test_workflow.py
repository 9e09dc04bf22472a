"""The workflow in ``examples``, which closes a loop from what is computed to how it is computed next."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Command
from tests.places import ROOT


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler is needed")
def test_the_simulation_heeds_what_the_analysis_recommends(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "workflow", tmp_path / "heat")
    # Tasks call 'chimbuko' by its name.
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = ["workflow", tmp_path / "heat" / "workflow.toml", "-o", tmp_path / "out"]
    command = Command(*words, environment=path)
    assert command.end(170.0) == 0, command.output
    logs = tmp_path / "out" / "logs"
    assert (logs / "task-analyse.log").read_text() == "2 of 3 were stable; 0.45 is recommended\n"
    learned = "a cell becomes 0.450 left + 0.100 itself + 0.450 right\n"
    assert (logs / "task-learn.log").read_text() == learned
    with open_run(RunDirectory(tmp_path / "out" / "run")) as provenance:
        names = provenance.programs()
        streams = {(names[stream.program], stream.rank) for stream in provenance.health()}
    simulations = {("simulation", rank) for rank in range(4)}
    assert streams == simulations | {("analysis", 0), ("learner", 0)}, command.output
