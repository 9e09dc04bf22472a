"""Anomalies per CPU-second that are explained, live into a store, and at the end of a run out of it.

Run: python -m benchmarks.incidents [--ranks N] [--seconds N] [--rate N]

The calls are made up: of N ranks one is late now and then; its neighbours wait for its messages, theirs for
them, and all others at the next collective.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from benchmarks.store import RUN
from benchmarks.store import record as usual_record
from chimbuko.core.calls.record import CallRecord, Message, StackFrame, StreamHealth, WindowCall, call_id
from chimbuko.core.calls.recordarrays import pack
from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.events import CallsStored, IncidentsStored, Tick
from chimbuko.provenance.write.liveincidents import LiveIncidents, Past, StoreChanges
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.runs.directory import RunInfo

BEGIN_US = 1_700_000_000_000_000
DELAY_US = 80_000


def made(ranks: int, seconds: int, rate: int) -> Iterator[list[CallRecord]]:
    """The calls of each second, each incident in all ranks."""
    rows = 0
    for second in range(seconds):
        calls: list[CallRecord] = []
        delays = max(1, rate // ranks)
        for n in range(delays):
            begin_us = BEGIN_US + second * 1_000_000 + n * (1_000_000 // delays)
            late = (second * 7 + n * 13) % ranks
            for rank in range(ranks):
                rows += 1
                distance = min((rank - late) % ranks, (late - rank) % ranks)
                calls.append(_call(rank, second, rows, begin_us, distance, late, ranks))
        yield calls


def _call(rank: int, step: int, row: int, begin_us: int, distance: int, late: int, ranks: int) -> CallRecord:
    own = call_id(0, rank, step, row)
    nearer = (rank - 1) % ranks if (rank - late) % ranks <= ranks // 2 else (rank + 1) % ranks
    is_chain = 0 < distance <= 3
    function = "relax" if not distance else "MPI_Recv()" if is_chain else "MPI Collective Sync"
    entry_us = begin_us + 100 * distance
    exit_us = begin_us + DELAY_US + 100 * distance
    messages = [Message("RECV", nearer, rank, 7, 8192, exit_us - 1, own)] if is_chain else []
    model = usual_record(row)
    return msgspec.structs.replace(
        model,
        id=own,
        rank=rank,
        step=step,
        function=function,
        entry_us=entry_us,
        exit_us=exit_us,
        inclusive_us=exit_us - entry_us,
        exclusive_us=exit_us - entry_us,
        expected_us=1000.0,
        severity_us=exit_us - entry_us - 1000.0,
        children=0,
        call_stack=[StackFrame(own, function, entry_us, exit_us, True), *model.call_stack[1:]],
        window=[WindowCall(own, function, entry_us, exit_us, "", 2, True), *model.window[1:]],
        messages=messages,
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=1000, help="Anomalies per second of the run.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'store.sqlite'}"
        info = msgspec.structs.replace(RUN, id="0123456789ab", store_url=url)
        _measure(url, info, list(made(options.ranks, options.seconds, options.rate)))


def _measure(url: str, info: RunInfo, seconds: list[list[CallRecord]]) -> None:
    engine = open_for_writing(url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    live = LiveIncidents(time.monotonic(), Past())
    writing_s = explaining_s = 0.0
    for calls in seconds:
        batches = _batches(calls)
        writing_s += _cpu_s(lambda batches=batches: writer.write(batches))  # type: ignore[misc]
        explaining_s += _cpu_s(lambda batches=batches: _explain(writer, live, batches))  # type: ignore[misc]
    count = sum(map(len, seconds))
    print(
        f"{count:,} anomalies: stored {count / writing_s:,.0f}/s, "
        f"explained live {count / explaining_s:,.0f}/s"
    )
    again_s = _cpu_s(lambda: print(explain(engine, info.id)))
    print(f"explained once more, out of the store: {count / again_s:,.0f}/s")
    close(engine)


def _explain(writer: Writer, live: LiveIncidents, batches: list[RecordBatch]) -> None:
    live.handle(CallsStored(time.monotonic(), batches))
    for instruction in live.handle(Tick(time.monotonic(), is_urgent=True)):
        if isinstance(instruction, StoreChanges):
            writer.write_incidents(instruction.changes)
            live.handle(IncidentsStored(time.monotonic(), instruction.changes.incidents))


def _batches(calls: list[CallRecord]) -> list[RecordBatch]:
    by_rank: dict[int, list[CallRecord]] = {}
    for call in calls:
        by_rank.setdefault(call.rank, []).append(call)
    return [
        RecordBatch(
            f"0:{rank}", 1, pack(of_rank), [], [],
            StreamHealth(0, rank, "node", "reading", 1, 1, 48, 1, 1, 0, {}), {},
        )
        for rank, of_rank in by_rank.items()
    ]  # fmt: skip


def _cpu_s(work: Callable[[], None]) -> float:
    begin_s = time.process_time()
    work()
    return time.process_time() - begin_s


if __name__ == "__main__":
    main()
