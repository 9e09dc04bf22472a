"""Threads for which others wait again and again, by what the recorder says at the end of streams."""

from __future__ import annotations

from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.calls.record import Metadata
from chimbuko.core.statistics.latethreads import LATE_THREADS, LateThread, encode_late_threads
from chimbuko.provenance.incidents.slowthreads import late_threads
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import PathStatistics, RunStatistics
from tests.sample_records import make_batch

BARRIER = "OpenMP barrier solve [{/a.c} {120,0}]"


def says(rank: int, *found: LateThread) -> Metadata:
    return Metadata(0, rank, 0, LATE_THREADS, encode_late_threads(list(found)))


def test_one_finding_for_each_barrier(writer: Writer, provenance: Provenance) -> None:
    spent = PathStatistics(0, ["solve"], 400, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 400, 10e6)
    writer.write_statistics(RunStatistics({0: "heat"}, paths=[spent]))
    late = LateThread(BARRIER, 3, 8, 200, 0.85, 1.4, 2e6)
    little = LateThread("OpenMP barrier sum [{/a.c} {9,0}]", 1, 8, 200, 0.9, 1.3, 20.0)
    said = {0: says(0, late, little), 1: says(1, LateThread(BARRIER, 3, 8, 200, 0.7, 1.3, 1e6))}
    for rank, metadata in said.items():
        writer.write([make_batch(1, f"0:{rank}", metadata=[metadata])])
    (found,) = late_threads(provenance, [])
    assert (found.kind, found.function, found.ranks) == (RecurrenceKind.LATE_THREADS, BARRIER, [0, 1])
    assert (found.by, found.factor, found.share, found.cost_us) == ("thread 3", 1.4, 0.85, 3e6)
