"""The made run with calls that differ in all that a chart of calls can show."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from tests.viz.made_run import STEPS, MadeRun, make_run, store


def varied_run(folder: Path, state: str = "finished", stored_steps: int = STEPS) -> MadeRun:
    """Make it, with what happened before step ``stored_steps`` in its store."""
    made = make_run(folder, state, stored_steps=0)
    made.records[:] = [_varied(record, number) for number, record in enumerate(made.records)]
    info = made.directory.read_info()
    engine = open_for_writing(info.store_url)
    store(Writer(engine, info.id), made, 0, stored_steps)
    engine.dispose()
    return made


def _varied(record: CallRecord, number: int) -> CallRecord:
    """Threads, children, messages and GPUs by turns; every 12th call is open, every 10th anomaly too fast."""
    changed = {"thread": number % 3, "children": number % 5, "messages_count": number % 7}
    record = msgspec.structs.replace(record, is_gpu=number % 4 == 0, **changed)
    if number % 12 == 5:
        return _open(record)
    if number % 10 == 3 and record.label is Label.ANOMALY:
        exclusive_us = round(record.expected_us / 10)
        return msgspec.structs.replace(record, exclusive_us=exclusive_us, severity_us=0.0)
    return record


def _open(record: CallRecord) -> CallRecord:
    stack = [msgspec.structs.replace(record.call_stack[0], exit_us=0), *record.call_stack[1:]]
    window = [
        msgspec.structs.replace(call, exit_us=0) if call.id == record.id else call for call in record.window
    ]
    return msgspec.structs.replace(record, exit_us=0, call_stack=stack, window=window)
