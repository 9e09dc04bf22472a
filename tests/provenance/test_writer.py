from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chimbuko.messages import RecordBatch
from chimbuko.provenance.queries import Provenance
from chimbuko.provenance.writer import Writer
from chimbuko.records import CallRecord, StreamHealth

Record = Callable[..., CallRecord]
HEALTH = StreamHealth(0, 1, "node7", "reading", 4, 100, 4800, 48, 2, 1, {"lost exits": 3})


def batch(sequence: int = 1, **parts: Any) -> RecordBatch:
    usual: dict[str, Any] = {"records": [], "steps": [], "metadata": [], "health": HEALTH, "dropped": {}}
    return RecordBatch("0:1", sequence, **usual | parts)


def test_a_record_comes_back_as_it_was(writer: Writer, provenance: Provenance, record: Record) -> None:
    written = record(row=91, revision=3, is_final=False, left_out=5, score=6.000000000000001)
    writer.write([batch(records=[written])])
    assert provenance.call("0:1:3:91") == written
