"""What samples of nodes cost the services that take them in: 250 nodes of 400 threads, once a second.

Run: python -m benchmarks.server.samples [--nodes N] [--threads T] [--seconds S] [--kept SHARE] [--json]

``chimbuko serve`` as users start it, with SQLite, on one core; on another one, who sends what the agents of
all nodes would: sums of ten seconds, and, with an abnormal call, the samples of a second. Nodes keep only
the seconds around abnormal calls; by default there is one in each second on each node, so that all are kept.
Rows are drawn beforehand, and hardly compress: all threads ran in each second.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
from sqlalchemy import func, make_url, select

from benchmarks.measuring import table
from benchmarks.server.measure import cores_apart, on_cores, percentile
from benchmarks.server.node import Services, lead
from benchmarks.server.services import KEYS, RUN_ID, SEAL, cpu_seconds_of, pss_mb
from benchmarks.store import record
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.calls.recordarrays import pack
from chimbuko.monitor.collector.batchmaker import FIRST_SUM_S
from chimbuko.monitor.sampling.nodebatch import NodeBatch, ThreadName, packed
from chimbuko.monitor.sampling.rows import CORE, NODE, OTHER, THREAD, Rows
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.tables import NODE_SAMPLES
from chimbuko.runtime.protocol.membership import Presence, ask_to_end
from chimbuko.runtime.protocol.messages import PAYLOAD, RecordBatch
from chimbuko.runtime.protocol.runbroker import RunBroker

THREADS_OF_RANK = 10
LOOKS_PER_S, LOOKED_AT = 4, 64
"""As often as a node looks at so many threads, where that may take 2 ms a second."""
CORES, OTHERS = 128, 6
DRAWN = 16
"""Seconds, which nodes take in turn."""
SLOT_S = 0.02
DELAY_US = 100_000
"""An abnormal call takes so long."""
LAST_S = 60.0
"""How long it may take until all is stored."""


@dataclass
class SamplesResult:
    """What was measured."""

    nodes: int
    threads: int
    sampled_s: int
    seconds: float
    """Until all of it was stored."""
    cores: dict[str, float]
    """CPU time of each service, per second."""
    pss_mb: dict[str, float]
    """At most."""
    batch_bytes: float
    """Samples of one second of a node on the wire."""
    stored_bytes_per_node_hour: float
    """Samples and sums, as they are in the store."""
    calls_bytes_per_node_hour: float
    """All else in it."""
    lag_p50_s: float
    lag_p99_s: float
    """Age of the oldest batch that is not stored yet, each second."""
    sender_late_p99_s: float
    sent: int
    stored: int
    calls_sent: int
    calls_stored: int
    end_s: float
    """What the end of the run took, in which all calls are explained once more."""

    @property
    def node_us(self) -> float:
        """CPU time of all services per node and second that was sampled, also by a sender that was late."""
        return 1e6 * sum(self.cores.values()) * self.seconds / (self.nodes * self.sampled_s)


class Drawn:
    """What a node of so many threads does in some seconds."""

    def __init__(self, threads: int) -> None:
        self._random = np.random.default_rng(20)
        self.tids = 1000 + np.arange(threads, dtype=np.int32)
        self.pids = self.tids - np.arange(threads, dtype=np.int32) % THREADS_OF_RANK
        self.names = [
            ThreadName(pid, tid, "solver", 0, (pid - 1000) // THREADS_OF_RANK, tid - pid, f"{tid % CORES}")
            for pid, tid in zip(self.pids.tolist(), self.tids.tolist(), strict=True)
        ]
        self._seconds = [self._second() for _ in range(DRAWN)]

    def second(self, number: int, begin_us: int) -> dict[str, bytes]:
        """Rows by their names in a batch."""
        found = {}
        for name, rows in self._seconds[number % DRAWN].items():
            moved = rows.copy()
            moved["begin_us"] += begin_us
            found[name] = moved.tobytes()
        return found

    def _second(self) -> dict[str, Rows]:
        everyone = np.arange(len(self.tids))
        parts = [
            self._threads(everyone[:LOOKED_AT], number * 1_000_000 // LOOKS_PER_S, 1_000_000 // LOOKS_PER_S)
            for number in range(LOOKS_PER_S)
        ]
        return {
            "threads": self._threads(everyone, 0, 1_000_000),
            "looks": np.concatenate(parts),
            "cores": self._rows(CORE, CORES, cpu=np.arange(CORES)),
            "others": self._rows(OTHER, OTHERS, pid=77, name=b"backup", user=b"root"),
            "states": self._rows(NODE, 1, group_limit_bytes=0, throttled_us=0),
        }

    def _threads(self, places: Rows, begin_us: int, length_us: int) -> Rows:
        rows = self._rows(
            THREAD, len(places), pid=self.pids[places], tid=self.tids[places], call=-1, state=b"R",
            core=places % CORES, migrations=0, major_faults=0,
        )  # fmt: skip
        rows["begin_us"], rows["length_us"] = begin_us, length_us
        rows["ran_us"] = self._random.integers(0, length_us, len(places))
        rows["waited_us"] = length_us - rows["ran_us"]
        return rows

    def _rows(self, dtype: np.dtype[np.void], count: int, **known: object) -> Rows:
        rows = np.zeros(count, dtype)
        rows["length_us"] = 1_000_000
        for name in dtype.names or ():
            if name in known:
                rows[name] = known[name]
            elif name.endswith("_us") and name not in ("begin_us", "length_us"):
                rows[name] = self._random.integers(0, 1_000_000, count)
            elif name not in ("begin_us", "length_us"):
                rows[name] = self._random.integers(0, 10_000, count)
        return rows


class Sender:
    """Sends what the agents of all nodes would, each at its moments of a second."""

    def __init__(self, broker: RunBroker, nodes: int, threads: int, kept: float) -> None:
        self._broker, self._nodes, self._kept = broker, nodes, kept
        self._drawn = Drawn(threads)
        self._presence = Presence(broker, "samples")
        self._sequence = time.time_ns() // 1000
        self._batches: Counter[int] = Counter()
        """Of records, by node."""
        self.sent = self.calls = 0
        self.sizes: list[int] = []
        self.lags_s: list[float] = []
        self.lates_s: list[float] = []

    def run(self, seconds: int) -> None:
        """All seconds; then until all is taken, but no longer than ``LAST_S``."""
        start_s = time.monotonic()
        slots = round(1 / SLOT_S)
        for slot in range(seconds * slots):
            due_s = start_s + slot * SLOT_S
            time.sleep(max(0.0, due_s - time.monotonic()))
            self.lates_s.append(max(0.0, time.monotonic() - due_s))
            second, part = divmod(slot, slots)
            self._send(second, range(part, self._nodes, slots))
            if part == 0:
                self.lags_s.append(self._lag_s())
                self._presence.say(False, [])
        self._presence.say(False, [])
        give_up_s = time.monotonic() + LAST_S
        while self._lag_s() > 0 and time.monotonic() < give_up_s:
            time.sleep(0.1)
        self._presence.say(True, [])

    def _send(self, second: int, nodes: range) -> None:
        now_us = time.time_ns() // 1000
        with self._broker.client.pipeline(transaction=False) as pipeline:
            for node in nodes:
                for batch in self._batches_of(node, second, now_us):
                    payload = SEAL.encode(packed(batch))
                    self.sizes += [] if batch.is_sum else [len(payload)]
                    pipeline.xadd(KEYS.node_batches, {PAYLOAD: payload})
                    self.sent += 1
                    if not batch.is_sum:
                        pipeline.xadd(KEYS.records, {PAYLOAD: SEAL.encode(self._call(node, now_us))})
                        self.calls += 1
            pipeline.execute()

    def _batches_of(self, node: int, second: int, now_us: int) -> Iterator[NodeBatch]:
        if int((node + second + 1) * self._kept) > int((node + second) * self._kept):
            yield self._batch(node, second, now_us, 1.0)
        if (node + second) % FIRST_SUM_S == 0:
            yield self._batch(node, second, now_us, FIRST_SUM_S)

    def _batch(self, node: int, second: int, now_us: int, length_s: float) -> NodeBatch:
        begin_us, self._sequence = now_us - int(1e6 * length_s), self._sequence + 1
        rows = self._drawn.second(node + second, begin_us)
        is_sum = length_s > 1.0
        if is_sum:
            rows["looks"] = b""
        return NodeBatch(
            _name(node), self._sequence, is_sum, begin_us, now_us, self._drawn.names, **rows
        )  # fmt: skip

    def _call(self, node: int, now_us: int) -> RecordBatch:
        """An abnormal call of the node's first rank."""
        self._batches[node] += 1
        number = self._batches[node]
        one = record(number)
        end_us = now_us - DELAY_US
        one = msgspec.structs.replace(
            one, id=f"0:{node}:{number}:0", rank=node, node=_name(node), entry_us=end_us - DELAY_US,
            exit_us=end_us, inclusive_us=DELAY_US, exclusive_us=DELAY_US, severity_us=0.9 * DELAY_US,
        )  # fmt: skip
        health = StreamHealth(0, node, _name(node), "reading", number, number, 48, number, number, 0, {})
        return RecordBatch(f"0:{node}", number, pack([one]), [], [], health, {})

    def _lag_s(self) -> float:
        oldest = cast("list[tuple[bytes, object]]", self._broker.client.xrange(KEYS.node_batches, count=1))
        return max(0.0, time.time() - int(oldest[0][0].partition(b"-")[0]) / 1e3) if oldest else 0.0


def _name(node: int) -> str:
    return f"node{node:04}"


def measure(nodes: int, threads: int, seconds: int, kept: float) -> SamplesResult:
    """Let all nodes send their samples for so long."""
    for_sender, for_services = cores_apart()
    with tempfile.TemporaryDirectory(prefix="chimbuko-samples-") as folder:
        services = Services(Path(folder), for_services)
        broker = RunBroker.connect(services.run.read_broker_url(), RUN_ID)
        assert broker.program_number("program0") == 0
        parts = services.parts()
        sender = Sender(broker, nodes, threads, kept)
        with on_cores(for_sender):
            began_s, before = time.monotonic(), _cpu_s(parts)
            sender.run(seconds)
            elapsed_s, after = time.monotonic() - began_s, _cpu_s(parts)
        memory = {name: sum(map(pss_mb, pids)) for name, pids in parts.items()}
        ends_s = time.monotonic()
        assert ask_to_end(broker)
        broker.client.close()
        if services.process.wait():
            raise SystemExit("the services did not end in order")
        ended_s = time.monotonic()
        with open_run(services.run) as provenance:
            calls = provenance.calls.count(CallFilter())
            counted = select(func.count(), func.sum(func.length(NODE_SAMPLES.c.rows)))
            stored, sample_bytes = next(iter(provenance.reader.rows(counted)))
        file = make_url(services.run.read_info().store_url).database
        store_bytes = Path(file or "").stat().st_size
    per_hour = 3600 / (seconds * nodes)
    return SamplesResult(
        nodes=nodes,
        threads=threads,
        sampled_s=seconds,
        seconds=elapsed_s,
        cores={name: (after[name] - used_s) / elapsed_s for name, used_s in before.items()},
        pss_mb=memory,
        batch_bytes=sum(sender.sizes) / max(1, len(sender.sizes)),
        stored_bytes_per_node_hour=(sample_bytes or 0) * per_hour,
        calls_bytes_per_node_hour=(store_bytes - (sample_bytes or 0)) * per_hour,
        lag_p50_s=percentile(sender.lags_s, 0.5),
        lag_p99_s=percentile(sender.lags_s, 0.99),
        sender_late_p99_s=percentile(sender.lates_s, 0.99),
        sent=sender.sent,
        stored=stored,
        calls_sent=sender.calls,
        calls_stored=calls,
        end_s=ended_s - ends_s,
    )


def _cpu_s(parts: dict[str, list[int]]) -> dict[str, float]:
    return {name: sum(map(cpu_seconds_of, pids)) for name, pids in parts.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--threads", type=int, default=400, help="of each node")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--kept", type=float, default=1.0, help="share of the seconds with an abnormal call")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    parser.add_argument("--lead", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.lead is not None:
        lead(options.lead)
    found = measure(options.nodes, options.threads, options.seconds, options.kept)
    if options.json:
        print(json.dumps(asdict(found), indent=1))
        return
    print(f"{found.nodes} nodes of {found.threads} threads, {found.seconds:.0f} s")
    rows = [(name, f"{cores:.3f}", f"{found.pss_mb[name]:.0f}") for name, cores in found.cores.items()]
    print(table(("service", "cores", "PSS MB"), rows))
    carries = 1e6 / found.node_us
    print(f"CPU per node and second: {found.node_us:,.0f} µs; a core carries {carries:,.0f} nodes")
    print(f"a second of a node on the wire: {found.batch_bytes / 1e3:,.1f} kB")
    print(
        f"stored per node and hour: {found.stored_bytes_per_node_hour / 1e6:,.1f} MB of samples, "
        f"{found.calls_bytes_per_node_hour / 1e6:,.1f} MB of all else"
    )
    print(f"oldest not yet stored: {found.lag_p50_s:.2f} s (median), {found.lag_p99_s:.2f} s (99 %)")
    print(
        f"batches stored: {found.stored:,} of {found.sent:,}; "
        f"calls: {found.calls_stored:,} of {found.calls_sent:,}"
    )
    print(f"the end of the run took {found.end_s:.0f} s")
    print(f"sender late by {1e3 * found.sender_late_p99_s:.0f} ms (99 %)")


if __name__ == "__main__":
    sys.exit(main())
