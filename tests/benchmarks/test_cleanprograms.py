"""Programs in order are programs, and what is found in one is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.cleanprograms import HEAD, PROGRAMS, under_monitor, under_run


def test_each_is_a_program() -> None:
    assert len(PROGRAMS) == 40
    for name, source in PROGRAMS.items():
        compile(HEAD + source, name, "exec")


def test_a_program_in_order(tmp_path: Path) -> None:
    assert under_monitor(PROGRAMS["poller, 10 ms"], 1.0, tmp_path) == []


@pytest.mark.parametrize("findings", [under_monitor, under_run])
def test_a_program_that_fails(findings: Callable[[str, float, Path], list[str]], tmp_path: Path) -> None:
    (said,) = findings("sys.exit(3)", 0.0, tmp_path)
    assert said.startswith("failed: ")
