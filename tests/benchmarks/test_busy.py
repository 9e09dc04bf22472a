"""Programs that work are never called stuck: here a few samples of one that is stopped and waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import nodecauses
from benchmarks.busy import watched


@pytest.mark.thorough
def test_a_program_that_is_stopped_again_and_again_is_not_stuck(tmp_path: Path) -> None:
    program = tmp_path / "node"
    nodecauses.build(program)
    seen = watched([program, "stopped", tmp_path], 2, tmp_path, periods=20)
    assert seen.periods >= 20
    assert not seen.alarms
