"""Programs that really run, each with one known cause of delay: what is told of them is right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from chimbuko.ad.analysis.wholetrace import read_whole
from chimbuko.causes.evidence.part import Kind
from chimbuko.causes.evidence.waiting import Waits, waits_in
from chimbuko.causes.incident import Incident
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.run import open_run
from chimbuko.runs.directory import RunDirectory
from chimbuko.trace.discovery import find_recorded
from tests.places import ROOT
from tests.recorder.mpi import WHEEL
from tests.thorough import first

CHIMBUKO = Path(sys.executable).parent / "chimbuko"
DELAYS = 5
LEAST_US = 50_000
"""Of the delays of 80 ms; shorter ones are the machine's."""
LEAST_RIGHT = 4
LONGEST = 2
"""Times as long as the delay: most of a wait that takes longer is for something else, as for an end."""


@dataclass(frozen=True)
class Expected:
    """What an incident of a scenario says."""

    function: str
    rank: int
    kind: Kind = Kind.OWN_CODE
    waiting: Kind | None = None
    """Cause of the others' waits."""
    metric: str = "exclusive"
    least_us: int = LEAST_US


SCENARIOS = {
    "chain": Expected("prepare", 0, waiting=Kind.LATE_SENDER),
    "late_sender": Expected("prepare", 0, waiting=Kind.LATE_SENDER),
    "late_receiver": Expected("consume", 1, waiting=Kind.LATE_RECEIVER),
    "late_root": Expected("read_input", 0, waiting=Kind.LATE_AT_COLLECTIVE),
    "late_at_collective": Expected("assemble", 2, waiting=Kind.LATE_AT_COLLECTIVE),
    "own_code": Expected("relax", 1),
    "late_child": Expected("newton", 1, Kind.LATE_CHILD),
    "more_calls": Expected("solve", 1, Kind.MORE_CALLS, metric="inclusive"),
    # How long 256 MB take is the machine's affair.
    "more_bytes": Expected("MPI_Send()", 0, Kind.MORE_BYTES, waiting=Kind.MORE_BYTES, least_us=20_000),
}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("scenarios") / "scenarios"
    source = ROOT / "examples" / "scenarios" / "scenarios.c"
    return WHEEL.build(source, built, "mpicc", "-O1", "-finstrument-functions")


@pytest.mark.parametrize("name", first(1, SCENARIOS))
def test_the_cause_is_the_known_one(program: Path, tmp_path: Path, name: str) -> None:
    expected, run = SCENARIOS[name], RunDirectory(tmp_path / "run")
    # Of a machine that is busy with other tests the node itself would be the cause, rightly.
    analysis = ["--no-dashboard", "--no-node-samples", "--keep-trace", "--period", "0.5"]
    analysis += ["--metric", expected.metric, "-o", str(run.path)]
    traced = [*WHEEL.launch(4), str(CHIMBUKO), "trace", str(program), name]
    subprocess.run([str(CHIMBUKO), "run", *analysis, "--", *traced], check=True, timeout=170)
    delays = [one for one in incidents(run) if one.call_id and one.excess_us >= expected.least_us]
    right = [one for one in delays if is_right(one, expected)]
    assert len(right) >= LEAST_RIGHT, [(one.function, one.rank, one.kind, one.waited) for one in delays]
    assert len(delays) <= DELAYS + 1
    for one in right if expected.waiting is not None else ():
        waited = {other.rank for other in one.waited if other.kind is expected.waiting}
        assert waiting_ranks(run, one) <= waited, one.waited


def incidents(run: RunDirectory) -> list[Incident]:
    with open_run(run) as provenance:
        found = Incidents(provenance.reader)
        return [found.one(one.id).incident for one in found.page(limit=1000, with_short=True).incidents]


def is_right(incident: Incident, expected: Expected) -> bool:
    told = incident.function.split(" [")[0], incident.rank, incident.kind
    return told == (expected.function, expected.rank, expected.kind)


def waiting_ranks(run: RunDirectory, incident: Incident) -> set[int]:
    """Ranks that waited during half of a delay, by the trace; on a busy machine some have not come so far."""
    waiting = set()
    for stream in find_recorded([f"{run.trace}/*.bp"]):
        whole = read_whole(stream, lambda rows: None)
        waits = [timer for timer, name in whole.names.timers.items() if waits_in(name) is not Waits.NOT]
        calls = whole.calls[np.isin(whole.calls["function"], waits)]
        begin_us, end_us = np.maximum(calls["begin_us"], incident.entry_us), calls["end_us"]
        together_us = np.minimum(end_us, incident.exit_us) - begin_us
        delay_us = incident.exit_us - incident.entry_us
        is_short = end_us - calls["begin_us"] < LONGEST * delay_us
        if (is_short & (together_us > delay_us / 2)).any():
            waiting.add(stream.rank)
    return waiting - {incident.rank}
