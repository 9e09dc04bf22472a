"""The made run with calls that have all that a record can have, and with call paths."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chimbuko.core.calls.record import (
    CallRecord,
    CounterStatistics,
    CounterValue,
    Message,
    StackFrame,
    call_id,
)
from chimbuko.core.calls.recordarrays import pack
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import PathStatistics, RecordBatch, RunStatistics
from tests.viz.made_run import EXPECTED_US, FUNCTIONS, RANKS, STEPS, MadeRun, make_run, store

METRIC = "PAPI_TOT_INS"
OWN_COUNTER = "Cache lines <shared>"
WAITS_US = (40, 700)
"""From the entry of a call to the messages that it receives."""
COUNTERS = {"monitoring: System load": [2.0, 4.0, 9.0], OWN_COUNTER: [100.0, 300.0], METRIC: [7.0]}
"""Values on rank 0; on others each is larger by the rank."""


def evident_run(folder: Path, store_url: str | None = None) -> MadeRun:
    """Make it."""
    made = make_run(folder, stored_steps=0, store_url=store_url)
    made.records[:] = [_evident(record, number) for number, record in enumerate(made.records)]
    info = made.directory.read_info()
    engine = open_for_writing(store_url or info.store_url)
    writer = Writer(engine, info.id)
    store(writer, made, 0, STEPS)
    for health in made.health():
        counters = [
            CounterStatistics(name, *Moments.of([value + health.rank for value in values]).row())
            for name, values in COUNTERS.items()
        ]
        writer.write([RecordBatch(f"0:{health.rank}", STEPS + 1, pack([]), [], [], health, {}, counters)])
    writer.write_statistics(RunStatistics(paths=path_statistics(made)))
    engine.dispose()
    return made


def path_statistics(made: MadeRun) -> list[PathStatistics]:
    """Of the paths that abnormal calls are on, as many calls of each as its name is long, a quarter of them
    asleep.
    """
    paths = {tuple(frame.function for frame in reversed(record.call_stack)) for record in made.records}
    statistics = []
    for path in sorted(paths):
        mean_us = EXPECTED_US[FUNCTIONS.index(path[-1])]
        one = (mean_us, mean_us / 15, mean_us / 2, 30 * mean_us)
        of_path = PathStatistics(0, list(path), 10 * len(path[-1]), *one, *(1.1 * us for us in one))
        statistics.append(msgspec.structs.replace(of_path, looked_us=1e6, asleep_us=2.5e5))
    return statistics


def _evident(record: CallRecord, number: int) -> CallRecord:
    """By turns: an abnormal caller, a launch on a GPU, a window that is not full, something left out."""
    own = record.id
    waits = [
        Message(
            "RECV", (record.rank + side) % RANKS, record.rank, 7, 64 << side, record.entry_us + wait_us, own
        )
        for side, wait_us in enumerate(WAITS_US, 1)
    ]
    stack = record.call_stack
    if number % 3 == 0:
        caller = msgspec.structs.replace(stack[1], is_anomaly=True)
        stack = [stack[0], caller, *stack[2:]]
    changed = {
        "messages": sorted([*record.messages, *waits], key=lambda message: message.time_us),
        "counters": [
            *record.counters,
            CounterValue(OWN_COUNTER, 1_234_567 + number, record.entry_us + 3, own),
        ],
        "metrics": [CounterValue(METRIC, 5_000_000 + number, record.exit_us, "")],
        "call_stack": stack,
        "left_out": number % 4,
        "is_final": number % 5 != 0,
    }
    if number % 7 == 0:
        launch = call_id(record.program, record.rank, record.step, 3)
        frame = StackFrame(launch, "cudaLaunchKernel: push<int>(double*)", record.entry_us - 50, 0, False)
        changed |= {
            "is_gpu": True,
            "thread": 5,
            "launch_id": launch,
            "launch_stack": [frame],
            "launch_thread": 2,
        }
    return msgspec.structs.replace(record, **changed)
