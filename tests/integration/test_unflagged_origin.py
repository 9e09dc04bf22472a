"""A delay whose own call is nothing unusual, from a recorded trace to what a user sees of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.traceschema import EventType, StreamNames
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.nodes import CHIMBUKO
from tests.patience import PATIENCE_S

BEGIN_US = 1_700_000_000_000_000
ITERATIONS, EACH, OF_STEP = 600, 60, 50
DELAYED = [n for n in range(ITERATIONS // 2 + 1, ITERATIONS + 1) if n % EACH == 0]
SHORT_US, DELAY_US = 1_000, 80_000
REFINE, EXCHANGE = 1, 2
NAMES = StreamNames(
    event_types={int(kind): kind.name for kind in EventType},
    timers={0: "main", REFINE: "refine", EXCHANGE: "MPI_Sendrecv()"},
)


def refined_us(iteration: int, rank: int) -> int:
    """Of all lengths up to 100 ms, on both ranks the same; but now and then rank 1 has less to do."""
    if iteration in DELAYED:
        return SHORT_US if rank else DELAY_US
    share = (iteration * 40503 % 65536 + 1) / 65536
    return round(min(SHORT_US / share, 100_000))


def write_streams(folder: Path) -> None:
    """Two ranks compute, and exchange a message each: who is done first waits for the other."""
    for rank in range(2):
        with StreamWriter(folder / f"tau-metrics-solver-{rank}.bp", "BP5") as writer:
            now_us = BEGIN_US
            events, messages = [(EventType.ENTRY, 0, now_us)], []
            for iteration in range(1, ITERATIONS + 1):
                come_us = [now_us + refined_us(iteration, one) for one in range(2)]
                leave_us = max(come_us) + 100 + iteration % 7
                events += [(EventType.ENTRY, REFINE, now_us), (EventType.EXIT, REFINE, come_us[rank])]
                events += [
                    (EventType.ENTRY, EXCHANGE, come_us[rank] + 1),
                    (EventType.EXIT, EXCHANGE, leave_us),
                ]
                messages += [(EventType.SEND, come_us[rank] + 2), (EventType.RECV, leave_us - 1)]
                now_us = leave_us + 10
                if iteration == ITERATIONS:
                    events.append((EventType.EXIT, 0, now_us))
                if iteration % OF_STEP == 0:
                    rows = [(0, rank, 0, kind, timer, time_us) for kind, timer, time_us in events]
                    comms = [(0, rank, 0, kind, 7, 1 - rank, 800, time_us) for kind, time_us in messages]
                    calls, sent = (np.array(some, np.uint64) for some in (rows, comms))
                    writer.write_step(calls, sent, np.empty((0, 6), np.uint64), NAMES)
                    events, messages = [], []


@pytest.mark.thorough
def test_waits_lead_to_a_call_that_was_not_flagged(tmp_path: Path) -> None:
    write_streams(tmp_path)
    run = RunDirectory(tmp_path / "run")
    options = ["--no-dashboard", "--trace", f"{tmp_path}/*.bp", "-o", str(run.path)]
    analysed = subprocess.run(
        [*CHIMBUKO, "run", *options], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert analysed.returncode == 0, analysed.stderr
    with open_run(run) as provenance:
        found = [one.incident for one in Incidents(provenance.reader).each()]
        waits = [one for one in provenance.calls.page(CallFilter()).calls if one.function == "MPI_Sendrecv()"]
    assert len(waits) == len(DELAYED)
    delays = [one for one in found if one.waited]
    assert [(one.rank, one.function, one.is_flagged) for one in delays] == [(0, "refine", False)] * len(
        DELAYED
    )
    assert {one.incident_id for one in waits} == {one.id for one in delays}
    shown = [
        subprocess.run(
            [*CHIMBUKO, *words, str(run.path)], capture_output=True, text=True, timeout=PATIENCE_S
        ).stdout
        for words in (["incidents"], ["show", delays[0].id], ["query", "--incident", delays[0].id])
    ]
    assert shown[0].count("refine on rank 0 took 80 ms") == len(DELAYED)
    assert f"The delayed call is {delays[0].call_id}, which was not flagged" in shown[1]
    assert "refine" in shown[2]
