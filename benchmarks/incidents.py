"""Anomalies per CPU-second that are explained, live into a store, and at the end of a run out of it.

Run: python -m benchmarks.incidents [--ranks N] [--seconds N] [--rate N] [--flood N]

The calls are made up: of N ranks one is late now and then; its neighbours wait for its messages, theirs for
them, and all others at the next collective. With ``--flood`` N calls of eight ranks of one node come instead,
short and so many a second, with the looks of the node, by which another process takes their cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.store import RUN
from benchmarks.store import record as usual_record
from chimbuko.core.calls.record import CallRecord, Message, StackFrame, StreamHealth, WindowCall, call_id
from chimbuko.core.calls.recordarrays import pack
from chimbuko.monitor.sampling.nodebatch import NodeBatch, ThreadName, packed
from chimbuko.monitor.sampling.rows import OTHER, THREAD
from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.events import CallsStored, IncidentsStored, Tick
from chimbuko.provenance.write.liveincidents import LiveIncidents, Past, StoreChanges
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.runs.directory import RunInfo

BEGIN_US = 1_700_000_000_000_000
DELAY_US = 80_000
NODE = usual_record(1).node
FLOODED, LOOK_US = 8, 20_000
"""Ranks of the node that a flood comes from, and how long a look at one of their threads is."""


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


def flood(calls: int, rate: int) -> Iterator[tuple[list[CallRecord], NodeBatch]]:
    """The abnormal calls of each second of a node of eight ranks, and its samples."""
    draws = np.random.default_rng(1)
    for second in range(-(-calls // rate)):
        begin_us = BEGIN_US + second * 1_000_000
        of_second = []
        for n in range(min(rate, calls - second * rate)):
            entry_us = begin_us + n * 1_000_000 // rate
            call = _call(n % FLOODED, second, n + 1, entry_us, 0, 0, FLOODED)
            length_us = int(draws.integers(1500, 4000))
            of_second.append(_of_length(call, length_us))
        yield of_second, _samples(second, begin_us, draws)


def _of_length(call: CallRecord, length_us: int) -> CallRecord:
    exit_us = call.entry_us + length_us
    return msgspec.structs.replace(
        call,
        exit_us=exit_us,
        inclusive_us=length_us,
        exclusive_us=length_us,
        expected_us=500.0,
        severity_us=length_us - 500.0,
        call_stack=[msgspec.structs.replace(call.call_stack[0], exit_us=exit_us), *call.call_stack[1:]],
        window=[msgspec.structs.replace(call.window[0], exit_us=exit_us), *call.window[1:]],
    )


def _samples(second: int, begin_us: int, draws: np.random.Generator) -> NodeBatch:
    """What a node saw in a second: each rank shares its core with a process of somebody else."""
    ticks = 1_000_000 // LOOK_US
    looks, others = np.zeros(ticks * FLOODED, THREAD), np.zeros(FLOODED, OTHER)
    looks["begin_us"] = begin_us + np.repeat(np.arange(ticks) * LOOK_US, FLOODED)
    looks["length_us"], looks["slices"], looks["state"], looks["call"] = LOOK_US, 5, b"R", -1
    looks["core"] = np.tile(np.arange(FLOODED), ticks)
    looks["pid"] = looks["tid"] = 100 + looks["core"]
    looks["waited_us"] = draws.integers(0, LOOK_US // 2, len(looks))
    looks["ran_us"] = LOOK_US - looks["waited_us"]
    others["begin_us"], others["length_us"], others["pid"] = begin_us, 1_000_000, 4711
    others["core"], others["ran_us"] = np.arange(FLOODED), 400_000
    others["name"], others["user"] = b"spinner", b"root"
    names = [ThreadName(100 + rank, 100 + rank, "app", 0, rank, 0) for rank in range(FLOODED)]
    until_us = begin_us + 1_000_000
    return NodeBatch(
        NODE, second + 1, False, begin_us, until_us, names, looks=looks.tobytes(), others=others.tobytes()
    )


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
    parser.add_argument("--flood", type=int, metavar="N", help="Calls of one node, with its samples.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'store.sqlite'}"
        info = msgspec.structs.replace(RUN, id="0123456789ab", store_url=url)
        if options.flood:
            _measure_flood(url, info, options.flood, options.rate)
            return
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


def _measure_flood(url: str, info: RunInfo, calls: int, rate: int) -> None:
    engine = open_for_writing(url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    for of_second, samples in flood(calls, rate):
        writer.write_samples([packed(samples)])
        writer.write(_batches(of_second))
    explained_s = _cpu_s(lambda: print(explain(engine, info.id)))
    print(f"a flood of {calls:,}, explained out of the store: {calls / explained_s:,.0f}/s")
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
            StreamHealth(0, rank, NODE, "reading", 1, 1, 48, 1, 1, 0, {}), {},
        )
        for rank, of_rank in by_rank.items()
    ]  # fmt: skip


def _cpu_s(work: Callable[[], None]) -> float:
    begin_s = time.process_time()
    work()
    return time.process_time() - begin_s


if __name__ == "__main__":
    main()
