"""What causes cost an agent: that all of it is measured, in a live run and in turns."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S
from tests.places import ROOT


@pytest.mark.thorough
def test_each_part_is_measured_with_causes_and_without() -> None:
    command = [sys.executable, "benchmarks/causescost.py", "--rounds", "1", "--seconds", "4", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 4
    for cost in found.values():
        assert len(cost["with_s"]) == len(cost["without_s"]) > 0
        assert min(cost["with_s"] + cost["without_s"]) > 0
    # What a clock has taken of the agent's time.
    agent = found["agent, live, with its questions"]
    assert agent["without_s"] < agent["with_s"]
