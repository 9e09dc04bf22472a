"""Programs that really run, each with one known cause of delay: what is told of them is right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from chimbuko.causes.evidence.part import Kind
from chimbuko.causes.incident import Incident
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.run import open_run
from chimbuko.runs.directory import RunDirectory
from tests.places import ROOT
from tests.recorder.mpi import WHEEL
from tests.thorough import first

CHIMBUKO = Path(sys.executable).parent / "chimbuko"
DELAYS = 5
LEAST_US = 50_000
"""Of the delays of 80 ms; shorter ones are the machine's."""
LEAST_RIGHT = 4


@dataclass(frozen=True)
class Expected:
    """What an incident of a scenario says."""

    function: str
    rank: int
    kind: Kind = Kind.OWN_CODE
    waiting: Kind | None = None
    """Cause of the others' waits."""
    waiting_ranks: int = 0
    metric: str = "exclusive"


SCENARIOS = {
    "chain": Expected("prepare", 0, waiting=Kind.LATE_SENDER, waiting_ranks=3),
    "late_sender": Expected("prepare", 0, waiting=Kind.LATE_SENDER, waiting_ranks=1),
    "late_receiver": Expected("consume", 1, waiting=Kind.LATE_RECEIVER, waiting_ranks=1),
    "late_root": Expected("read_input", 0, waiting=Kind.LATE_AT_COLLECTIVE, waiting_ranks=3),
    # Ranks that share cores poll in it, and what they wait is then as long as the delay.
    "late_at_collective": Expected("assemble", 2),
    "own_code": Expected("relax", 1),
    "late_child": Expected("newton", 1, Kind.LATE_CHILD),
    "more_calls": Expected("solve", 1, Kind.MORE_CALLS, metric="inclusive"),
}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("scenarios") / "scenarios"
    source = ROOT / "examples" / "scenarios" / "scenarios.c"
    return WHEEL.build(source, built, "mpicc", "-O1", "-finstrument-functions")


@pytest.mark.parametrize("name", first(2, SCENARIOS))
def test_the_cause_is_the_known_one(program: Path, tmp_path: Path, name: str) -> None:
    expected, run = SCENARIOS[name], RunDirectory(tmp_path / "run")
    # Of a machine that is busy with other tests the node itself would be the cause, rightly.
    analysis = ["--no-dashboard", "--no-node-samples", "--period", "0.5", "--metric", expected.metric]
    analysis += ["-o", str(run.path)]
    traced = [*WHEEL.launch(4), str(CHIMBUKO), "trace", str(program), name]
    subprocess.run([str(CHIMBUKO), "run", *analysis, "--", *traced], check=True, timeout=170)
    delays = [one for one in incidents(run) if one.call_id and one.excess_us >= LEAST_US]
    right = [one for one in delays if is_right(one, expected)]
    assert len(right) >= LEAST_RIGHT, [(one.function, one.rank, one.kind, one.waited) for one in delays]
    assert len(delays) <= DELAYS + 1
    if expected.waiting is not None:
        held_up = [one for one in right if holds_up(one, expected)]
        assert len(held_up) >= LEAST_RIGHT - 1, [one.waited for one in right]


def incidents(run: RunDirectory) -> list[Incident]:
    with open_run(run) as provenance:
        found = Incidents(provenance.reader)
        return [found.one(one.id).incident for one in found.page(limit=1000, with_short=True).incidents]


def is_right(incident: Incident, expected: Expected) -> bool:
    told = incident.function.split(" [")[0], incident.rank, incident.kind
    return told == (expected.function, expected.rank, expected.kind)


def holds_up(incident: Incident, expected: Expected) -> bool:
    waited = [one for one in incident.waited if one.kind is expected.waiting]
    return len({one.rank for one in waited}) >= expected.waiting_ranks - 1
