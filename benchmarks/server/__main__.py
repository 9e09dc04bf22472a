"""What parameter server and broker take to serve 10,000 ranks: CPU time, delay, bytes, memory, losses.

Run: python -m benchmarks.server [--only LOAD ...] [--seconds S] [--part P] [--json]

The real server process and a private Valkey, over loopback, driven by simulated agents (agents.py reports
what is simplified). Every agent has its moments, fixed beforehand, once per second, at which it looks for a
newer model and then sends; delays count from the sending, and beside it from the moment. Server and broker
share one core, the agents have another one.
"""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks.measuring import table
from benchmarks.server.load import LOADS
from benchmarks.server.measure import Result, measure

CPP_SSTD_US = (53.0, 80.0)
"""CPU time of the C++ server per exchange of 100 functions' mean and spread with one rank, measured on
another day and machine; the lower and the higher figure."""
CPP_HBOS_US = 2_500.0
"""CPU time of the C++ server per exchange of 100 histograms, which is what our tables hold too."""


def costs_table(results: list[Result]) -> str:
    """CPU time and delays."""
    heads = (
        "load",
        "messages/s",
        "server",
        "broker",
        "together",
        "µs/message",
        "µs/rank and s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "p99 from due ms",
    )
    rows = [
        (
            one.load,
            f"{one.messages / one.seconds:,.0f}",
            *(f"{cores:.2f}" for cores in (one.server_cores, one.broker_cores, one.cores)),
            f"{one.message_us:,.0f}",
            f"{one.rank_us:,.1f}",
            *(f"{ms:,.1f}" for ms in (one.delay_p50_ms, one.delay_p99_ms, one.delay_max_ms, one.wait_p99_ms)),
        )
        for one in results
    ]
    return table(heads, rows)


def traffic_table(results: list[Result]) -> str:
    """Bytes per message, and by how much there would be more if all functions were exchanged each time."""
    heads = (
        "load",
        "all",
        "statistics",
        "model",
        "for dashboards",
        "the rest",
        "with all functions",
        "all, ratio",
        "statistics and model, ratio",
    )
    rows = []
    for one in results:
        exchanged = one.table_bytes_per_message + one.row_bytes_per_message
        whole = one.full_table_bytes + one.full_row_bytes
        rest = one.bytes_per_message - exchanged - one.telemetry_bytes_per_message
        sizes = (
            one.bytes_per_message,
            one.table_bytes_per_message,
            one.row_bytes_per_message,
            one.telemetry_bytes_per_message,
            rest,
            one.full_bytes_per_message,
        )
        ratios = one.full_bytes_per_message / one.bytes_per_message, whole / exchanged
        rows.append((one.load, *(f"{size:,.0f}" for size in sizes), *(f"1/{ratio:.1f}" for ratio in ratios)))
    return table(heads, rows)


def state_table(results: list[Result]) -> str:
    """What was lost, and memory."""
    heads = (
        "load",
        "messages",
        "put off",
        "lost",
        "functions miscounted",
        "server MB",
        "broker MB",
        "frames kB/s",
        "driver, cores",
        "driver late, p99 ms",
    )
    rows = [
        (
            one.load,
            *(f"{count:,}" for count in (one.messages, one.put_off, one.lost_messages, one.wrong_functions)),
            *(f"{mb:.0f}" for mb in (one.server_mb, one.broker_mb)),
            f"{one.frame_bytes_per_s / 1e3:,.0f}",
            f"{one.driver_cores:.2f}",
            f"{one.driver_lag_p99_ms:.1f}",
        )
        for one in results
    ]
    return table(heads, rows)


def comparison_table(results: list[Result]) -> str:
    """How many times less CPU time than the C++ server, which gets a message from each rank."""
    heads = ("load", *(f"{per}, against {what}" for per in ("message", "rank") for what in ("SSTD", "HBOS")))
    rows = []
    for one in results:
        fewer = [
            f"{CPP_SSTD_US[0] / us:.1f}-{CPP_SSTD_US[1] / us:.1f}, {CPP_HBOS_US / us:,.0f}"
            for us in (one.message_us, one.rank_us)
        ]
        rows.append((one.load, *(cell for pair in fewer for cell in pair.split(", "))))
    return table(heads, rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=LOADS, default=list(LOADS), metavar="LOAD")
    parser.add_argument("--seconds", type=int, default=60, help="how long each load lasts")
    parser.add_argument("--part", type=float, default=1.0, help="of the agents, where all are too many here")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    results = []
    for name in options.only:
        load = LOADS[name].scaled(options.part)
        print(f"{name}: {load.name}", file=sys.stderr)
        results.append(measure(load, options.seconds)[0])
    if options.json:
        print(json.dumps([one.as_json() for one in results], indent=1))
        return
    print("CPU time in cores of server and broker; delays from the sending of a message to its merging")
    print(costs_table(results))
    print("\nBytes per message on the wire between agents and broker, both ways")
    print(traffic_table(results))
    print("\nWhat arrived, and memory (PSS, largest)")
    print(state_table(results))
    print("\nHow many times less CPU time than the C++ server takes")
    print(comparison_table(results))


if __name__ == "__main__":
    main()
