"""``chimbuko runs delete``, after runs of each kind: nothing of them is left."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from chimbuko.capture.trace.discovery import Transport
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Command, Start
from tests.thorough import first

PROGRAM = """
import time

def work():
    time.sleep(0.001)

for _ in range(300):
    work()
"""
CHIMBUKO = [sys.executable, "-m", "chimbuko"]


@pytest.fixture
def traced(tmp_path: Path) -> list[str]:
    """A traced program."""
    program = tmp_path / "simulation.py"
    program.write_text(PROGRAM)
    return [*CHIMBUKO, "trace", str(program)]


def delete(folder: Path) -> str:
    """Delete a run; what was said."""
    words = [*CHIMBUKO, "runs", "delete", "--yes", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stderr


def index(folder: Path) -> None:
    """Make the recorded trace of a run ready for the timeline."""
    subprocess.run([*CHIMBUKO, "runs", "index", str(folder)], check=True, stdout=subprocess.DEVNULL)
    assert any(RunDirectory(folder).timelines.iterdir())


@pytest.mark.parametrize(
    "options", first(1, [["--transport", "files", "--keep-trace"], ["--transport", "sst"]])
)
def test_of_a_live_run(start: Start, traced: Sequence[str], options: Sequence[str]) -> None:
    run = start("--no-dashboard", *options, "--", *traced)
    assert run.end() == 0, run.output
    if "--keep-trace" in options:
        index(run.folder)
    assert delete(run.folder) == ""
    assert not run.folder.exists()


@pytest.mark.thorough
def test_of_a_recorded_trace_which_stays(start: Start, heat4: Path) -> None:
    before = sorted(heat4.rglob("*"))
    run = start("--no-dashboard", "--trace", heat4 / "*.bp")
    assert run.end() == 0, run.output
    index(run.folder)
    assert delete(run.folder) == ""
    assert not run.folder.exists()
    assert sorted(heat4.rglob("*")) == before


@pytest.mark.parametrize("transport", [Transport.SST, Transport.FILES])
@pytest.mark.thorough
def test_of_a_run_on_many_nodes(
    command: Callable[..., Command], tmp_path: Path, traced: Sequence[str], transport: Transport
) -> None:
    run = RunDirectory(tmp_path / "run")
    services = command("serve", run.path, "--no-dashboard", "--transport", transport.value)
    services.wait_for_line("services are ready")
    agent = command("agent", run.path)
    agent.wait_for_line("reads the streams")
    subprocess.run([run.node_command, *traced], check=True)
    assert command("stop", run.path).end() == 0
    assert agent.end() == 0, agent.output
    assert services.end() == 0, services.output
    assert delete(run.path) == ""
    assert not run.path.exists()
