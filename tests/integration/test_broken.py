"""Every broken trace of the corpus is survived, and what was lost of it is counted and said."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from chimbuko.ad.calls.stacks import LOSS_NAMES
from chimbuko.core.calls.record import StreamHealth
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Run
from tests.places import DATA
from tests.reference.accounting import LOST_ROW_KINDS

BROKEN = DATA / "broken"
EXPECTED: dict[str, dict[str, Any]] = json.loads((BROKEN / "expected.json").read_text())


@dataclass
class Outcome:
    """One run over the whole corpus."""

    run: Run
    health: dict[str, StreamHealth]
    """By case."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    folder = tmp_path_factory.mktemp("broken")
    with tarfile.open(BROKEN / "streams.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    run = Run(folder / "run", "--trace", folder / "*.bp")
    assert run.end() == 0, run.output
    with open_run(RunDirectory(run.folder)) as provenance:
        names = provenance.programs()
    yield Outcome(run, {names[stream.program]: stream for stream in run.health})


@pytest.mark.parametrize("case", [case for case in EXPECTED if "state" in EXPECTED[case]])
def test_rows_are_used_or_counted_as_lost(case: str, outcome: Outcome) -> None:
    health = outcome.health[case]
    not_used = sum(health.losses.get(LOSS_NAMES[kind], 0) for kind in LOST_ROW_KINDS)
    counted = {
        "why": EXPECTED[case]["why"],
        "state": health.state,
        "steps": health.steps,
        "rows": health.rows,
        "used": health.rows - not_used,
        "calls": health.calls,
        "losses": health.losses,
    }
    assert counted == EXPECTED[case]
    assert health.gap_steps == 0


@pytest.mark.parametrize("case", [case for case in EXPECTED if "complaint" in EXPECTED[case]])
def test_streams_that_cannot_be_opened_are_left_out(case: str, outcome: Outcome) -> None:
    assert case not in outcome.health
    assert EXPECTED[case]["complaint"] in outcome.run.wait_for_line(
        f"Problem: {outcome.run.folder.parent}/tau-metrics-{case}-0.bp"
    )


def test_nothing_else_went_wrong(outcome: Outcome) -> None:
    refused = [case for case in EXPECTED if "complaint" in EXPECTED[case]]
    assert outcome.run.output.count("Problem: ") == len(refused)
    assert "Traceback" not in outcome.run.output
    for log in (outcome.run.folder / "logs").glob("*.log"):
        assert "Traceback" not in log.read_text(errors="replace"), log
