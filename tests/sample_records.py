"""A run, its records and its batches, as agents send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chimbuko.core.calls.record import (
    CallRecord,
    CounterValue,
    Message,
    StackFrame,
    StepCount,
    StreamHealth,
    WindowCall,
    call_id,
)
from chimbuko.core.calls.recordarrays import pack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.runs.directory import RunInfo

RUN_ID = "0123456789ab"


def make_record(row: int = 0, **changes: Any) -> CallRecord:
    """A complete record of one call; the fields named in ``changes`` differ from the usual."""
    program, rank = changes.get("program", 0), changes.get("rank", 1)
    step, function = changes.get("step", 3), changes.get("function", "exchange(double *) [{halo.c} {12,1}]")
    event_id = changes.pop("id", call_id(program, rank, step, row))
    origin = f"{program}:{rank}"
    entry, exit_ = changes.get("entry_us", 1_000_000 + row), changes.get("exit_us", 1_009_000 + row)
    usual: dict[str, Any] = {
        "version": 1,
        "id": event_id,
        "revision": 0,
        "is_final": True,
        "label": Label.ANOMALY,
        "program": program,
        "rank": rank,
        "thread": 0,
        "node": "node7",
        "function": function,
        "entry_us": entry,
        "exit_us": exit_,
        "inclusive_us": _inclusive_us(entry, exit_, changes),
        "exclusive_us": max(exit_ - entry - 1_000, 0),
        "step": step,
        "step_start_us": 1_000_000,
        "step_end_us": 2_000_000,
        "score": 7.5,
        "severity_us": 7_000.0,
        "expected_us": 1_000.0,
        "spread_us": 133.25,
        "seen": 412,
        "detector": AnalysisConfig().detector,
        "incident_id": "",
        "depth": 1,
        "children": 1,
        "messages_count": 1,
        "call_stack": [
            StackFrame(event_id, function, entry, exit_, True),
            StackFrame(f"{origin}:0:0", "main", 900_000, 0, False),
        ],
        "window": [
            WindowCall(
                f"{origin}:3:90",
                "compute",
                max(entry - 500, 0),
                max(entry - 10, 0),
                f"{origin}:0:0",
                1,
                False,
            ),
            WindowCall(event_id, function, entry, exit_, f"{origin}:0:0", 1, True),
            WindowCall(f"{origin}:3:92", "MPI_Recv()", entry + 5, max(exit_ - 5, 0), event_id, 2, False),
        ],
        "messages": [Message("RECV", 2, rank, 99, 8192, entry + 50, f"{origin}:3:92")],
        "counters": [CounterValue("MPI Recv bytes", 8192, entry + 60, f"{origin}:3:92")],
        "node_state": [CounterValue("monitoring: load", 3, 1_500_000, "")],
        "left_out": 2,
        "metrics": [CounterValue("CPU_TIME", 812, exit_, event_id)],
        "is_gpu": False,
        "launch_id": "",
        "launch_stack": [],
        "collectives": [],
        "model_version": 17,
        "launch_thread": -1,
        "is_relabelled": False,
    }
    return CallRecord(**usual | changes)


def _inclusive_us(entry: int, exit_: int, changes: dict[str, Any]) -> int:
    """Of an open call its time so far, where nothing else is said what was expected and what it lost."""
    if exit_:
        return max(exit_ - entry, 0)
    return round(changes.get("expected_us", 1_000.0) + changes.get("severity_us", 7_000.0))


def make_run(run_id: str = RUN_ID, **changes: Any) -> RunInfo:
    """A run that goes on."""
    usual: dict[str, Any] = {
        "id": run_id,
        "name": "heat",
        "command": ["mpirun", "-n", "4", "./heat"],
        "state": "running",
        "started_us": 1_000_000,
        "ended_us": 0,
        "exit_code": None,
        "host": "node7",
        "store_url": "sqlite:////runs/heat/provenance.sqlite",
        "config": AnalysisConfig(),
        "version": "0.1.0",
    }
    return RunInfo(**usual | changes)


def make_batch(
    sequence: int = 1, stream: str = "0:1", records: Sequence[CallRecord] = (), **parts: Any
) -> RecordBatch:
    """A batch of one stream that holds records, their steps and its health; ``parts`` say what differs."""
    origins = {(record.program, record.rank, record.node) for record in records} or {(0, 1, "node7")}
    (origin,) = origins
    intervals = {record.step: (record.step_start_us, record.step_end_us) for record in records}
    usual: dict[str, Any] = {
        "steps": [
            StepCount(*origin[:2], step, *interval, 50, 0, 0.0) for step, interval in intervals.items()
        ],
        "metadata": [],
        "health": StreamHealth(*origin, "reading", sequence, 100, 4800, 48, 2, 0, {}),
        "dropped": {},
    }
    return RecordBatch(stream, sequence, records=pack(list(records)), **usual | parts)


def make_batches(records: Sequence[CallRecord]) -> list[RecordBatch]:
    """One batch for each stream that the records are from."""
    streams: dict[tuple[int, int, str], list[CallRecord]] = {}
    for record in records:
        streams.setdefault((record.program, record.rank, record.node), []).append(record)
    return [make_batch(1, f"{program}:{rank}", made) for (program, rank, _), made in streams.items()]


def mentioned(record: CallRecord) -> list[StackFrame | WindowCall]:
    """Calls that a record mentions: those around its call, and its neighbours."""
    return [*record.call_stack, *record.window]
