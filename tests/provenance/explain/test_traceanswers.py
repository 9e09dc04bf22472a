"""Delays that nobody flagged are found in the trace of a run that has ended, where it is still there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.traceschema import StreamNames
from chimbuko.provenance.explain.explaining import explain_run
from chimbuko.provenance.incidents.incidentlist import IncidentDetails, Incidents
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RunStatistics
from chimbuko.runtime.runs.directory import RunDirectory
from tests.causes.flagged import at
from tests.causes.stories import chain
from tests.sample_records import RUN_ID, make_batches, make_run

NAMES = StreamNames(timers={0: "main", 1: "compute", 2: "MPI_Barrier()"})
STREAM = "tau-metrics-heat-3.bp"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Ranks 0, 1 and 2 waited for 3, of which no call is recorded."""
    run = RunDirectory(tmp_path / "run")
    run.trace.mkdir(parents=True)
    info = make_run(store_url=run.store_url)
    run.write_info(info)
    engine = open_for_writing(run.store_url)
    writer = Writer(engine, RUN_ID)
    writer.write_run(info)
    health = [StreamHealth(0, rank, "node1", "ended", 1, 100, 4800, 48, 6, 0, {}) for rank in range(4)]
    writer.write_statistics(RunStatistics({0: "heat"}, health=health))
    _, *waits = chain()
    writer.write(make_batches(waits))
    close(engine)
    return run


def write_stream(path: Path, lost_ms: float) -> None:
    """Rank 3 computes for 1 ms, comes to a barrier, and so on; once it takes longer. Two steps."""
    begins = [*range(-90, 0, 10), 0, *range(200, 300, 10)]
    calls = [(1, begin, lost_ms if begin == 0 else 1.0) for begin in begins]
    calls += [(2, begin + 5, 0.1) for begin in begins if begin != 0]
    events = [(0, 0, -100.0), *((0, timer, begin) for timer, begin, _ in calls)]
    events += [*((1, timer, begin + took) for timer, begin, took in calls), (1, 0, 400.0)]
    events.sort(key=lambda one: one[2])
    rows = np.array([(0, 3, 0, kind, timer, at(ms)) for kind, timer, ms in events], np.uint64)
    with StreamWriter(path, "BP5") as writer:
        for some in (rows[:24], rows[24:]):
            writer.write_step(some, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64), NAMES)


def explained(run: RunDirectory, is_hasty: bool = False) -> IncidentDetails:
    explain_run(run, lambda: is_hasty)
    with open_run(run) as provenance:
        return Incidents(provenance.reader).one("I1")


def test_the_trace_is_asked_for_what_is_not_on_record(run: RunDirectory) -> None:
    unknown = explained(run)
    assert (unknown.incident.rank, unknown.incident.call_id) == (3, "")
    write_stream(run.trace / STREAM, lost_ms=100.0)
    assert explained(run, is_hasty=True) == unknown
    known = explained(run)
    assert (known.incident.rank, known.incident.function) == (3, "compute")
    assert (known.incident.is_flagged, known.summary.flags, known.summary.ranks) == (False, 3, 4)
    assert known.summary.sentence.startswith(
        "compute on rank 3 took 100 ms, 100× its usual 1 ms; ranks 0 and 2"
    )
    with open_run(run) as provenance:
        record = provenance.calls.record(known.incident.call_id)
    assert (record.entry_us, record.exit_us, record.node) == (at(0), at(100), "node1")
    assert [frame.function for frame in record.call_stack] == ["compute", "main"]
    assert explained(run) == known


def test_a_rank_that_was_in_time_is_no_origin(run: RunDirectory) -> None:
    write_stream(run.trace / STREAM, lost_ms=1.0)
    assert explained(run).incident.call_id == ""


def test_a_damaged_trace_says_nothing(run: RunDirectory) -> None:
    (run.trace / STREAM).write_bytes(b"none")
    assert explained(run).incident.call_id == ""
