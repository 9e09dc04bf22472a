"""Programs in order are programs, and what is found in one is read."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cleanprograms import HEAD, NOT_FALSE, PROGRAMS, findings


def test_each_is_a_program() -> None:
    assert len(PROGRAMS) == 40
    for name, source in PROGRAMS.items():
        compile(HEAD + source, name, "exec")


def test_a_program_in_order_and_one_that_fails(tmp_path: Path) -> None:
    assert set(findings(PROGRAMS["poller, 10 ms"], 1.0, tmp_path)) <= NOT_FALSE
    (said,) = findings("sys.exit(3)", 0.0, tmp_path)
    assert said.startswith("failed: ")
