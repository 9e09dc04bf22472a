"""A run with all that exports have to show: two programs, GPU streams, open calls, messages both ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from chimbuko.causes.incident import Incident, Waited
from chimbuko.causes.incidents.tracker import Changes
from chimbuko.causes.part import Part
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.record import CallRecord, Message, Metadata, StackFrame, WindowCall, call_id
from chimbuko.core.calls.schema import Label
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.provenance.export.registry import Exported, export
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionStatistics, PathStatistics, RunStatistics
from tests.sample_records import make_batch, make_batches, make_record

GPU_THREAD = 8
LAUNCH_ID = "0:1:2:4"
LONG_NAME = "void Kokkos::parallel<" + "Grid<double> const&, " * 50 + "int>()"
ORIGIN_ID, WAITED_ID, LATER_ID, OTHER_ID = "0:2:3:0", "0:1:3:0", "0:1:3:94", "1:0:9:5"
INCIDENT_OF = {ORIGIN_ID: "I1", WAITED_ID: "I1", LATER_ID: "I1", OTHER_ID: "I2"}


def some_records() -> list[CallRecord]:
    """By program, rank and step."""
    launch = [
        StackFrame(LAUNCH_ID, "cudaLaunchKernel", 950_000, 950_010, False),
        StackFrame("0:1:0:0", "main", 900_000, 0, False),
    ]
    first = make_record(0)
    second = make_record(94, label=Label.NORMAL, entry_us=1_010_000, exit_us=1_011_000, severity_us=0.0)
    send = Message("SEND", 2, 1, 99, 8192, 1_000_040, "0:2:3:0")
    hanging = make_record(
        94, rank=2, exit_us=0, entry_us=1_100_000, severity_us=79_000.0, inclusive_us=80_000
    )
    records = [
        first,
        # What is inside the first call is a neighbour of both.
        msgspec.structs.replace(second, window=[first.window[2], second.window[1]], messages=[], counters=[]),
        make_kernel(
            96, 1_000_004, launch_id=LAUNCH_ID, launch_thread=0, launch_stack=launch, function=LONG_NAME
        ),
        make_kernel(98, 1_020_000),
        make_record(0, rank=2, messages=[send]),
        msgspec.structs.replace(hanging, window=[hanging.window[1]], messages=[], counters=[]),
        make_record(5, program=1, rank=0, step=9, node_state=[], function="main"),
    ]
    return [msgspec.structs.replace(one, incident_id=INCIDENT_OF.get(one.id, "")) for one in records]


def make_kernel(row: int, entry_us: int, function: str = "kernel", **changes: Any) -> CallRecord:
    """A call on a GPU."""
    event_id, exit_us = call_id(0, 1, 3, row), entry_us + 1_000
    return make_record(
        row,
        function=function,
        thread=GPU_THREAD,
        is_gpu=True,
        entry_us=entry_us,
        exit_us=exit_us,
        depth=0,
        call_stack=[StackFrame(event_id, function, entry_us, exit_us, True)],
        window=[WindowCall(event_id, function, entry_us, exit_us, "", 0, True)],
        messages=[],
        counters=[],
        metrics=[],
        **changes,
    )


def others() -> dict[str, list[Metadata]]:
    """What the stream 0:1 contains beside its calls."""
    stream = [("CUDA Device", "1"), ("CUDA Context", "2"), ("CUDA Stream", "3")]
    return {"metadata": [Metadata(0, 1, GPU_THREAD, key, value) for key, value in stream]}


def statistics() -> list[FunctionStatistics]:
    return [FunctionStatistics(0, "main", 12, 1, 5.0, 10.0, 1.0, 9.0, 11.0, 20.0, 30.0)]


def path_statistics() -> list[PathStatistics]:
    runtimes = (2.0, 0.5, 1.0, 3.0)
    return [
        PathStatistics(0, ["main"], 12, *(10 * each for each in runtimes), *(30 * each for each in runtimes)),
        PathStatistics(0, ["main", "compute"], 60, *runtimes, *runtimes),
        PathStatistics(1, ["main"], 1, *runtimes, *runtimes),
    ]


@dataclass
class ExportedRun:
    """A stored run that is to be exported."""

    provenance: Provenance
    folder: Path
    records: list[CallRecord] = field(default_factory=some_records)

    def export(self, form: str, name: str = "out", wanted: CallFilter | None = None) -> Exported:
        """Export all calls, or those that are wanted."""
        return export(self.provenance, form, self.folder / name, wanted or CallFilter(label=None))


def some_incidents() -> list[Incident]:
    """One that held up two calls, one by the other; and one of another program."""
    origin, first, later, other = (
        next(one for one in some_records() if one.id == call_id)
        for call_id in (ORIGIN_ID, WAITED_ID, LATER_ID, OTHER_ID)
    )
    waited = [
        Waited(first.id, 1, "MPI_Recv()", 7_000.0, first.entry_us, first.exit_us, origin.id, "late sender"),
        Waited(
            *(later.id, 1, "MPI_Recv()", 500.0, later.entry_us, later.exit_us, first.id, "late sender"),
            is_flagged=False,
        ),
    ]
    return [
        Incident(
            *(number, one.program, "own code", one.rank, one.function, one.id, one.node),
            *(one.entry_us, one.exit_us, 9_000.0, 1_000.0, 8_000.0, True, one.entry_us, end_us, 15_500.0),
            parts=[Part("own code", 8_000.0)],
            waited=held_up,
        )
        for number, one, end_us, held_up in (
            (1, origin, later.exit_us, waited),
            (2, other, other.exit_us, []),
        )
    ]


RECURRENCE = Recurrence(
    *(
        0,
        RecurrenceKind.SLOW_MODE,
        "main",
        70,
        5e6,
        0.0,
        8e4,
        ["main"],
        [1, 2],
        900_000,
        2_000_000,
        [WAITED_ID],
    ),
    share=0.1,
)


DRIFT = Finding(Problem.GLOBAL_DRIFT, "mass", (), 100, 140, -0.02, 1_000_000, 1_500_000)
DEPARTURE = Finding(Problem.DEPARTURE, "density/min", (1, 2), 120, 150, 6.5, 1_200_000, 1_600_000)


def store(writer: Writer) -> None:
    """Store the run."""
    writer.write_statistics(RunStatistics({0: "heat", 1: "coupler"}))
    writer.write(make_batches(some_records()))
    writer.write([make_batch(9, **others())])
    writer.write_statistics(RunStatistics(functions=statistics(), paths=path_statistics()))
    incident_of = {call_id: int(incident[1:]) for call_id, incident in INCIDENT_OF.items()}
    writer.write_incidents(Changes(some_incidents(), {}, [], incident_of))
    writer.write_recurrences([RECURRENCE])
    writer.write_metric_findings([DRIFT, DEPARTURE])
