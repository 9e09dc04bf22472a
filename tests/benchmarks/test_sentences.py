"""Live, abnormal calls are found in the store, and get their sentences while the program runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.sentences import watch
from evaluation import causes


@pytest.mark.thorough
def test_calls_are_explained_while_the_run_goes_on(tmp_path: Path) -> None:
    times = watch(causes.build(tmp_path / "scenarios"), "late_sender", tmp_path / "run")
    assert len(times.explained) >= causes.DELAYS
    assert min(times.from_flag_s()) >= 0.0
    assert min(times.from_end_s()) > 0.0
