"""A run, its records and its batches, as agents send them."""

from __future__ import annotations

from typing import Any

from chimbuko.config import AnalysisConfig
from chimbuko.messages import RecordBatch
from chimbuko.records import (
    CallRecord,
    CounterValue,
    Label,
    Message,
    StackFrame,
    StreamHealth,
    WindowCall,
    call_id,
)
from chimbuko.rundir import RunInfo

RUN_ID = "0123456789ab"


def make_record(row: int = 0, **changes: Any) -> CallRecord:
    """A complete record of one call; the fields named in ``changes`` differ from the usual."""
    program, rank = changes.get("program", 0), changes.get("rank", 1)
    step, function = changes.get("step", 3), changes.get("function", "exchange(double *) [{halo.c} {12,1}]")
    event_id = changes.pop("id", call_id(program, rank, step, row))
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
        "inclusive_us": exit_ - entry,
        "exclusive_us": exit_ - entry - 1_000,
        "step": step,
        "step_start_us": 1_000_000,
        "step_end_us": 2_000_000,
        "score": 7.5,
        "severity_us": 7_000.0,
        "expected_us": 1_000.0,
        "spread_us": 133.25,
        "seen": 412,
        "detector": "sstd",
        "incident_id": "",
        "depth": 1,
        "children": 1,
        "messages_count": 1,
        "call_stack": [
            StackFrame(event_id, function, entry, exit_, True),
            StackFrame("0:1:0:0", "main", 900_000, 0, False),
        ],
        "window": [
            WindowCall("0:1:3:90", "compute", entry - 500, entry - 10, "0:1:0:0", 1, False),
            WindowCall(event_id, function, entry, exit_, "0:1:0:0", 1, True),
            WindowCall("0:1:3:92", "MPI_Recv()", entry + 5, exit_ - 5, event_id, 2, False),
        ],
        "messages": [Message("RECV", 2, 1, 99, 8192, entry + 50, "0:1:3:92")],
        "counters": [CounterValue("MPI Recv bytes", 8192, entry + 60, "0:1:3:92")],
        "node_state": [CounterValue("monitoring: load", 3, 1_500_000, "")],
        "left_out": 2,
    }
    return CallRecord(**usual | changes)


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


def make_batch(sequence: int = 1, stream: str = "0:1", **parts: Any) -> RecordBatch:
    """A batch of one stream that holds nothing but its health, unless ``parts`` say otherwise."""
    usual: dict[str, Any] = {
        "records": [],
        "steps": [],
        "metadata": [],
        "health": StreamHealth(0, 1, "node7", "reading", sequence, 100, 4800, 48, 2, 0, {}),
        "dropped": {},
    }
    return RecordBatch(stream, sequence, **usual | parts)
