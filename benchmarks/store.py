"""Anomalies per CPU-second that the provenance store takes, by how many come in one transaction.

Run: python benchmarks/store.py [--anomalies N] [--rounds N] [--store URL] [--writers N ...]

All ways are measured in turn, in each round into a fresh store or run, so that their ratios hold on a
machine that is busy with other things too. A PostgreSQL server's own CPU time is not seen: there the
time is what passed.

With ``--writers`` so many processes at once store the anomalies of ranks of their own, in one run. What they
take in all by the clock depends on the cores that are idle, so the CPU time of a writer for each anomaly, and
the time for which all others wait, stand beside it.

On SQLite an anomaly took 101 to 117 µs of CPU time, 56 to 63 of it alone, with one, two or four writers on a
busy machine (half of that on a quiet one). So a file takes 1.8 times what one writer does, which two reach:
16,000 a second, where 9,000 nodes with one each are 9,000. Files of their own would gain from the third
writer on, but each anomaly is inserted once more when they are merged: for such runs there is PostgreSQL.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import Manager, get_context
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
from sqlalchemy import event

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
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.store.statements import Turn
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.runs.directory import RunInfo

STACK_FRAMES = 10
WINDOW_CALLS = 11
FUNCTIONS = 100
SINGLES = 500
RANK = 3
HEALTH = StreamHealth(0, RANK, "node", "reading", 1, 1, 48, 1, 1, 0, {})
RUN = RunInfo("", "made up", [], "running", 0, 0, None, "node", "sqlite:////x", AnalysisConfig(), "")


def record(number: int) -> CallRecord:
    """An anomaly as an agent sends it: a deep stack, a full window, one message, two counters."""
    rank, step, row = RANK, number // 10, 100 * (number % 10)
    own = call_id(0, rank, step, row)
    function = f"void Solver::stage_{number % FUNCTIONS}(double *, int) [{{solver.cpp}} {{12,1}}]"
    entry = 1_700_000_000_000_000 + 1_000 * number
    stack = [
        StackFrame(call_id(0, rank, 0, i), f"frame {i}", entry - i, 0, False) for i in range(STACK_FRAMES)
    ]
    window = [
        WindowCall(
            call_id(0, rank, step, row + 2 * i),
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


@dataclass(frozen=True)
class Way:
    """How many anomalies come together."""

    name: str
    per_batch: int
    batches: int
    """Per transaction."""

    def transactions(self, records: list[CallRecord]) -> list[list[RecordBatch]]:
        """All records, as the writer gets them."""
        together = self.per_batch * self.batches
        return [
            [
                batch(records[start : start + self.per_batch], start)
                for start in range(first, min(first + together, len(records)), self.per_batch)
            ]
            for first in range(0, len(records), together)
        ]


WAYS = (
    Way("1,000 in a transaction, in one batch", 1_000, 1),
    Way("1,000 in a transaction, in batches of 10", 10, 100),
    Way("one transaction each", 1, 1),
)


def batch(records: list[CallRecord], sequence: int) -> RecordBatch:
    """What one stream sends of one step."""
    step = StepCount(0, RANK, sequence, 0, 1, 10_000, len(records), 1.0)
    return RecordBatch(f"0:{RANK}", sequence, pack(records), [step], [], HEALTH, {})


def anomalies_per_second(url: str, run_id: str, records: list[CallRecord], way: Way) -> float:
    """Write all records into the store as a run of their own."""
    transactions = way.transactions(records)
    engine = open_for_writing(url)
    clock = time.process_time if engine.dialect.name == "sqlite" else time.perf_counter
    writer = Writer(engine, run_id)
    writer.write_run(msgspec.structs.replace(RUN, id=run_id))
    began = clock()
    for batches in transactions:
        writer.write(batches)
    seconds = clock() - began
    close(engine)
    return len(records) / seconds


@dataclass(frozen=True)
class Share:
    """What one of several writers has stored, and what it took."""

    anomalies: int
    began_s: float
    ended_s: float
    cpu_s: float
    alone_s: float
    """CPU time in which the others had to wait."""


def store_share(url: str, run_id: str, number: int, anomalies: int, start: Barrier) -> Share:
    """Be one of several writers."""
    way, rank = WAYS[1], 1_000 * number
    transactions = [
        [
            msgspec.structs.replace(
                one,
                stream=f"0:{rank + at}",
                steps=[msgspec.structs.replace(step, rank=rank + at) for step in one.steps],
                health=msgspec.structs.replace(one.health, rank=rank + at),
            )
            for at, one in enumerate(batches)
        ]
        for batches in way.transactions([record(number) for number in range(anomalies)])
    ]
    alone = Alone()
    engine = open_for_writing(url)
    writer = Writer(engine, run_id, number)
    writer.write(transactions[0])
    event.listen(engine, "after_cursor_execute", alone.note)
    event.listen(engine, "commit", alone.over)
    start.wait()
    began_s, before_s = time.monotonic(), time.process_time()
    for batches in transactions[1:]:
        writer.write(batches)
    ended_s, cpu_s = time.monotonic(), time.process_time() - before_s
    close(engine)
    return Share(way.per_batch * way.batches * (len(transactions) - 1), began_s, ended_s, cpu_s, alone.cpu_s)


class Alone:
    """CPU time of one writer in which it keeps the others from writing: on SQLite from the first look on."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self._since_s: float | None = None

    def note(self, connection: Any, cursor: Any, statement: str, values: Any, *others: Any) -> None:
        """Note a statement that was executed."""
        is_last_turn = "pg_advisory_xact_lock" in statement and values[0] & 0xFFFF == Turn.SUMS
        if self._since_s is None and (is_last_turn or connection.dialect.name == "sqlite"):
            self._since_s = time.process_time()

    def over(self, connection: Any) -> None:
        """Note that the transaction is over, but for its commit."""
        if self._since_s is not None:
            self.cpu_s += time.process_time() - self._since_s
            self._since_s = None


def store_by_several(url: str, writers: int, anomalies: int) -> str:
    """Let several writers store their shares at once, and return what that took as a line."""
    run_id = f"by {writers} writers"
    engine = open_for_writing(url)
    Writer(engine, run_id).write_run(msgspec.structs.replace(RUN, id=run_id))
    engine.dispose()
    with Manager() as manager, ProcessPoolExecutor(writers, get_context("spawn")) as pool:
        start = manager.Barrier(writers)
        begun = [
            pool.submit(store_share, url, run_id, number, anomalies // writers, start)
            for number in range(1, writers + 1)
        ]
        shares = [one.result() for one in begun]
    stored = sum(one.anomalies for one in shares)
    took_s = max(one.ended_s for one in shares) - min(one.began_s for one in shares)
    cpu_us = 1e6 * sum(one.cpu_s for one in shares) / stored
    alone_us = 1e6 * sum(one.alone_s for one in shares) / stored
    return (
        f"{stored / took_s:10,.0f} anomalies/s by {writers} writers; "
        f"{cpu_us:.0f} µs of CPU time each, {alone_us:.0f} µs of it alone"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--anomalies", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", help="URL of an empty store; default: SQLite files in a temporary folder")
    parser.add_argument("--writers", type=int, nargs="+", default=[], help="processes that write at once")
    options = parser.parse_args()
    for writers in options.writers:
        with tempfile.TemporaryDirectory() as folder:
            url = options.store or f"sqlite:///{folder}/provenance.sqlite"
            print(store_by_several(url, writers, options.anomalies))
    if options.writers:
        return
    records = [record(number) for number in range(options.anomalies)]
    measured: dict[Way, list[float]] = {way: [] for way in WAYS}
    for number in range(options.rounds):
        for way in WAYS:
            some = records if way.per_batch * way.batches > 1 else records[:SINGLES]
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "provenance.sqlite"
                url = options.store or f"sqlite:///{path}"
                measured[way].append(anomalies_per_second(url, f"{way.name} {number}", some, way))
                if way is WAYS[0] and path.exists():
                    size_bytes = path.stat().st_size
    for way, speeds in measured.items():
        print(f"{statistics.median(speeds):10,.0f} anomalies/s, {way.name}")
    ratios = [many / one for many, one in zip(measured[WAYS[0]], measured[WAYS[-1]], strict=True)]
    print(f"{statistics.median(ratios):10.0f} times as many together as one by one")
    if not options.store:
        print(f"{size_bytes / len(records):10.0f} bytes each, with all indexes")
    print(f"Medians of {options.rounds} rounds.")


if __name__ == "__main__":
    main()
