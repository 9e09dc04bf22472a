"""Phases of a workflow, each of which has its analysis where the one before it advises."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from chimbuko.runtime.process.cores import core_numbers
from tests.integration.conftest import AGENT, Command
from tests.integration.nodes import CHIMBUKO

pytestmark = pytest.mark.thorough

CORES = len(os.sched_getaffinity(0))
BUSY = """
import time

def relax(until_s):
    while time.perf_counter() < until_s:
        pass

begin_s = time.perf_counter()
for number in range(6_000):
    relax(begin_s + number / 1_000)
"""
PHASE = """
[analysis]
options = ["--no-dashboard", "--period", "0.5"]
[[task]]
name = "simulate"
command = ["sh", "-c", "for rank in $(seq {ranks}); do {chimbuko} trace busy.py & done; wait"]
cores = {ranks}
"""


class Phases:
    """The phases of a workflow, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "busy.py").write_text(BUSY)

    def run(self, name: str, ranks: int, *options: str) -> tuple[Command, set[int]]:
        """One in which so many cores are busy; with the cores of its agent."""
        file = self._folder / f"{name}.toml"
        file.write_text(PHASE.format(ranks=ranks, chimbuko=" ".join(CHIMBUKO)))
        phase = Command("workflow", file, "-o", self._folder / name, *options)
        cores = os.sched_getaffinity(phase.service(AGENT))
        assert phase.end() == 0, phase.output
        return phase, cores

    def advised(self, name: str) -> set[int]:
        """Cores that a phase advises for agents; empty for all."""
        words = [*CHIMBUKO, "model", "agents", str(self._folder / name / "run"), "--json"]
        (node,) = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
        return set(core_numbers(node["cores"])) if node["cores"] else set()


def cores_of_task(phase: Command) -> set[int]:
    """Those on which its task runs."""
    (line,) = [line for line in phase.lines if "simulate: runs on" in line]
    return set(core_numbers(line.rpartition(":")[2].strip()))


@pytest.mark.skipif(CORES < 2, reason="one core is nothing to split")
def test_the_split_of_cores_changes_from_phase_to_phase(tmp_path: Path) -> None:
    phases = Phases(tmp_path)
    _, cores = phases.run("first", 1)
    assert len(cores) == CORES
    # One core is busy: the analysis fits on one that is idle.
    advised = phases.advised("first")
    assert len(advised) == 1
    second, cores = phases.run("second", 1, "--advised", str(tmp_path / "first"))
    assert cores == advised and not cores & cores_of_task(second)
    # All are busy in the third, which has no room for it; its successor shares them all.
    third, cores = phases.run("third", CORES, "--advised", str(tmp_path / "second"))
    assert "there is no room for each task beside the cores that are advised" in third.output
    assert len(cores_of_task(third)) == CORES
    assert phases.advised("third") == set()
    fourth, cores = phases.run("fourth", CORES, "--advised", str(tmp_path / "third"))
    assert len(cores) == CORES and "there is no room" not in fourth.output
