"""Anomalies per second that the provenance store takes, and what writing them in batches gains.

Run: python benchmarks/store.py [--anomalies N] [--rounds N] [--store URL]

Both ways are measured in turn, in each round into a fresh store, so that their ratio holds on a
machine that is busy with other things too.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from chimbuko.messages import RecordBatch
from chimbuko.packed import pack
from chimbuko.provenance.store import open_for_writing
from chimbuko.provenance.writer import Writer
from chimbuko.records import (
    CallRecord,
    CounterValue,
    Label,
    Message,
    StackFrame,
    StepCount,
    StreamHealth,
    WindowCall,
    call_id,
)

STACK_FRAMES = 10
WINDOW_CALLS = 11
FUNCTIONS = 100
PER_TRANSACTION = 1_000
"""Anomalies per transaction: what the writer finds waiting when the broker is busy."""
SINGLES = 500
HEALTH = StreamHealth(0, 0, "node", "reading", 1, 1, 48, 1, 1, 0, {})


def record(number: int) -> CallRecord:
    """An anomaly as an agent sends it: a deep stack, a full window, one message, two counters."""
    rank, step, row = number % 64, number // 640, number
    own = call_id(0, rank, step, row)
    function = f"void Solver::stage_{number % FUNCTIONS}(double *, int) [{{solver.cpp}} {{12,1}}]"
    entry = 1_700_000_000_000_000 + 1_000 * number
    stack = [
        StackFrame(call_id(0, rank, 0, i), f"frame {i}", entry - i, 0, False) for i in range(STACK_FRAMES)
    ]
    window = [
        WindowCall(
            call_id(0, rank, step, row + i),
            f"neighbour {i}",
            entry + 10 * i,
            entry + 10 * i + 9,
            own,
            10,
            False,
        )
        for i in range(WINDOW_CALLS)
    ]
    return CallRecord(
        version=1,
        id=own,
        revision=1,
        is_final=True,
        label=Label.ANOMALY,
        program=0,
        rank=rank,
        thread=0,
        node="node0123",
        function=function,
        entry_us=entry,
        exit_us=entry + 900,
        inclusive_us=900,
        exclusive_us=700,
        step=step,
        step_start_us=entry - 5_000,
        step_end_us=entry + 5_000,
        score=6.0 + (number * 7919 % 1000) / 10,
        severity_us=float(number * 104729 % 100_000),
        expected_us=100.0,
        spread_us=9.5,
        seen=number,
        detector="sstd",
        incident_id="",
        depth=STACK_FRAMES,
        children=1,
        messages_count=1,
        call_stack=stack,
        window=window,
        messages=[Message("SEND", rank, 1, 7, 8192, entry + 3, own)],
        counters=[
            CounterValue("bytes sent", 8192, entry + 3, own),
            CounterValue("heap", 9000, entry + 4, own),
        ],
        node_state=[CounterValue("monitoring: load", 3, entry, "")],
        left_out=0,
        metrics=[],
        is_gpu=False,
        launch_id="",
        launch_stack=[],
        model_version=0,
    )


def batch(records: list[CallRecord], sequence: int) -> RecordBatch:
    """What one stream sends of one step."""
    step = StepCount(0, sequence % 64, sequence, 0, 1, 10_000, len(records), 1.0)
    return RecordBatch("0:0", sequence, pack(records), [step], [], HEALTH, {})


def anomalies_per_second(url: str, run_id: str, records: list[CallRecord], per_transaction: int) -> float:
    """Write all records into the store, so many per transaction."""
    engine = open_for_writing(url)
    writer = Writer(engine, run_id)
    batches = [
        batch(records[start : start + per_transaction], sequence)
        for sequence, start in enumerate(range(0, len(records), per_transaction))
    ]
    began = time.perf_counter()
    for sent in batches:
        writer.write([sent])
    seconds = time.perf_counter() - began
    engine.dispose()
    return len(records) / seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--anomalies", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", help="URL of an empty store; default: SQLite files in a temporary folder")
    options = parser.parse_args()
    records = [record(number) for number in range(options.anomalies)]
    batched, single = [], []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            url = options.store or f"sqlite:///{Path(folder) / 'provenance.sqlite'}"
            batched.append(anomalies_per_second(url, f"batched {number}", records, PER_TRANSACTION))
            single.append(anomalies_per_second(url, f"single {number}", records[:SINGLES], 1))
    ratios = [many / one for many, one in zip(batched, single, strict=True)]
    print(f"{statistics.median(batched):,.0f} anomalies/s in transactions of {PER_TRANSACTION:,}")
    print(f"{statistics.median(single):,.0f} anomalies/s in one transaction each")
    print(f"ratio {statistics.median(ratios):.1f} (median of {options.rounds} rounds)")


if __name__ == "__main__":
    main()
