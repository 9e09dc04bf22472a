"""What it costs that functions' times on each of 10,000 ranks are published in the namespace ``performance``.

Run: python -m benchmarks.server.timers [--seconds S] [--part P] [--json]

*server*: parameter server and broker under the load of 250 nodes of 40 ranks (benchmarks/server/__main__.py),
without and with the times of 100 functions of each rank, which agents report every 20 s; they are asked for
once, in the middle. *publishing*: who asks makes keys of the answer, and publishes them; the second time only
one rank in ten has done something new. Half of the functions are MPI's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.measuring import cpu_of, descendants, table
from benchmarks.publishing.service import service
from benchmarks.server.load import LOADS, Load, rank_timers
from benchmarks.server.measure import Result, measure
from chimbuko.core.statistics.convergence import HELD_PERIODS
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.client.performance import (
    LEAVES_PER_S,
    NAMESPACE,
    PERIOD_S,
    PIECE,
    TauLayout,
)
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.runtime.protocol.telemetry import TIMER, RankTimers

TIMERS = 100
"""Functions of each rank."""
KEEP = "1GB"
"""Of the service: room for all values."""
SOME = 10
"""One rank in so many has done something new the second time."""


@dataclass(frozen=True)
class Published:
    """One answer, as it is published."""

    ranks: str
    answer_mb: float
    values: int
    """Of which the service gets those that have changed."""
    making_s: float
    """CPU time of keys and messages, in the process that publishes."""
    waiting_s: float
    """For the broker, piece by piece."""
    merging_s: float
    """CPU time of the instance of the service."""
    period_s: float
    """How often that happens."""


def published(load: Load, folder: Path) -> list[Published]:
    """What all ranks did, and then what is new of some of them."""
    plain = load.timers(0)
    names = {timer: f"MPI_Routine{timer}()" if timer % 2 else plain[timer] for timer in range(load.timed)}
    nodes = [(0, rank, f"node{rank // load.ranks_per_agent}") for rank in range(load.ranks)]
    rows = np.frombuffer(rank_timers(load, 0, range(load.ranks), HELD_PERIODS), TIMER).copy()
    layout, found = TauLayout(), []
    with service(folder, options=("--keep", KEEP)) as serving, Client(folder, rank=0) as client:
        namespace = client.create(NAMESPACE)
        instance = [one.pid for one in descendants(serving) if f"{NAMESPACE} 0" in one.command]
        for ranks, every in (("all", 1), (f"1 in {SOME}", SOME)):
            rows["calls"][rows["rank"] % every == 0] += 1
            answer = RankTimers(rows.tobytes(), {0: "heat"}, names, nodes)
            size_bytes = len(msgspec.msgpack.encode(answer))
            instance_s, making_s = cpu_of(instance), time.process_time()
            leaves, waiting_s = 0, 0.0
            made = layout.leaves([answer])
            while piece := list(islice(made, PIECE)):
                for path, value in piece:
                    namespace.update(path, value)
                leaves += len(piece)
                arrival, began_s = namespace.publish_async(), time.monotonic()
                if arrival is not None:
                    arrival.result()
                waiting_s += time.monotonic() - began_s
            making_s = time.process_time() - making_s
            await_merged(folder, client.delivered)
            merging_s = cpu_of(instance) - instance_s
            period_s = max(PERIOD_S, leaves / LEAVES_PER_S)
            found.append(Published(ranks, size_bytes / 1e6, leaves, making_s, waiting_s, merging_s, period_s))
    return found


def await_merged(folder: Path, publications: int) -> None:
    """Wait until the instance has merged so many."""
    with Reader(folder) as reader:
        while reader.counts(NAMESPACE)[0].publications < publications:
            time.sleep(0.1)


def server_table(results: list[tuple[Load, Result]]) -> str:
    """Without and with."""
    heads = (
        *("functions of each rank", "server, cores", "broker, cores", "p50 ms", "p99 ms", "max ms"),
        *("bytes/message", "server MB", "broker MB", "lost"),
    )
    rows = [
        (
            str(load.timed),
            *(f"{cores:.2f}" for cores in (one.server_cores, one.broker_cores)),
            *(f"{ms:,.1f}" for ms in (one.delay_p50_ms, one.delay_p99_ms, one.delay_max_ms)),
            f"{one.bytes_per_message:,.0f}",
            *(f"{mb:,.0f}" for mb in (one.server_mb, one.broker_mb)),
            str(one.lost_messages),
        )
        for load, one in results
    ]
    return table(heads, rows)


def published_table(found: list[Published]) -> str:
    """One line for each answer."""
    heads = (
        "ranks with news",
        "answer MB",
        "values",
        "making, CPU s",
        "waiting s",
        "merging, CPU s",
        "every s",
    )
    rows = [
        (
            one.ranks,
            f"{one.answer_mb:.1f}",
            f"{one.values:,}",
            *(f"{seconds:.1f}" for seconds in (one.making_s, one.waiting_s, one.merging_s, one.period_s)),
        )
        for one in found
    ]
    return table(heads, rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="how long each load lasts")
    parser.add_argument("--part", type=float, default=1.0, help="of the nodes")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    plain = LOADS["nodes"].scaled(options.part)
    loads = plain, replace(plain, timed=TIMERS)
    with tempfile.TemporaryDirectory() as folder:
        found = published(loads[-1], Path(folder) / "observations")
    results = [(load, measure(load, options.seconds)[0]) for load in loads]
    if options.json:
        server = [one.as_json() for _, one in results]
        print(json.dumps({"server": server, "publishing": [asdict(one) for one in found]}, indent=1))
        return
    print(f"Server and broker: {plain.name}")
    print(server_table(results))
    print(f"\nPublishing the times of {TIMERS} functions of each of {plain.ranks:,} ranks")
    print(published_table(found))


if __name__ == "__main__":
    main()
