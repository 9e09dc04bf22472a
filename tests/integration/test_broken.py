"""Every broken trace of the corpus is survived, and what was lost of it is counted and said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chimbuko.ad.calls.stacks import LOSS_NAMES
from chimbuko.core.calls.record import StreamHealth
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import BROKEN, BrokenRun
from tests.reference.accounting import LOST_ROW_KINDS

EXPECTED: dict[str, dict[str, Any]] = json.loads((BROKEN / "expected.json").read_text())


@pytest.fixture(scope="module")
def health(broken_run: BrokenRun) -> dict[str, StreamHealth]:
    """Health of the streams, by case."""
    with open_run(RunDirectory(broken_run.folder)) as provenance:
        names = provenance.programs()
    return {names[stream.program]: stream for stream in broken_run.health}


@pytest.mark.parametrize("case", [case for case in EXPECTED if "state" in EXPECTED[case]])
def test_rows_are_used_or_counted_as_lost(case: str, health: dict[str, StreamHealth]) -> None:
    stream = health[case]
    not_used = sum(stream.losses.get(LOSS_NAMES[kind], 0) for kind in LOST_ROW_KINDS)
    counted = {
        "why": EXPECTED[case]["why"],
        "state": stream.state,
        "steps": stream.steps,
        "rows": stream.rows,
        "used": stream.rows - not_used,
        "calls": stream.calls,
        "losses": stream.losses,
    }
    assert counted == EXPECTED[case]
    assert stream.gap_steps == 0


@pytest.mark.parametrize("case", [case for case in EXPECTED if "complaint" in EXPECTED[case]])
def test_streams_that_cannot_be_opened_are_left_out(
    case: str, broken_run: BrokenRun, health: dict[str, StreamHealth]
) -> None:
    assert case not in health
    said = [line for line in broken_run.output.splitlines() if line.startswith("Problem: ")]
    (problem,) = [line for line in said if f"/tau-metrics-{case}-0.bp" in line]
    assert EXPECTED[case]["complaint"] in problem


def test_nothing_else_went_wrong(broken_run: BrokenRun) -> None:
    refused = [case for case in EXPECTED if "complaint" in EXPECTED[case]]
    assert broken_run.output.count("Problem: ") == len(refused)
    assert "Traceback" not in broken_run.output
    for log in (broken_run.folder / "logs").glob("*.log"):
        assert "Traceback" not in log.read_text(errors="replace"), log
