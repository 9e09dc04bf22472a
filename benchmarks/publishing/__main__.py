"""What publishing observations costs a program, and how many programs a broker carries.

Run: python -m benchmarks.publishing [--only held clients] [--rounds N] [--clients N] [--json]

*held*: a program commits 24 values an iteration, 500 iterations a round, and publishes every 1, 5 or 50 of
them, waiting for the service or not; measured is the time for which the program is held, against a service on
its own node, and against one behind a link of 1 ms each way (two network namespaces, and a program that
carries packets from one to the other). *clients*: so many clients, each with a connection of its own, publish
once in ``--period`` seconds; measured is the CPU time of the broker and of the process that merges.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.measuring import table
from benchmarks.publishing.clients import Load, carried
from benchmarks.publishing.held import Held, held_by_place, orderings


def main() -> None:
    """What is asked for, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("held", "clients"), default=("held", "clients"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--period", type=float, default=10.0, help="of each client, in seconds")
    parser.add_argument("--seconds", type=float, default=30.0, help="for which the clients publish")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        if "held" in options.only:
            places, reason = held_by_place(Path(folder) / "held", options.rounds)
            found["held"] = {place: [one.as_object for one in rows] for place, rows in places.items()}
            if not options.json:
                _print_held(places, reason)
        if "clients" in options.only:
            load = carried(Path(folder) / "clients", options.clients, options.period, options.seconds)
            found["clients"] = load.as_object
            if not options.json:
                _print_load(load)
    if options.json:
        print(json.dumps(found, indent=2))


def _print_held(places: dict[str, list[Held]], reason: str) -> None:
    heads = ("service", "publishes every", "waits", "held per iteration, µs", "95 % interval", "messages")
    rows = [
        (
            place,
            str(one.frequency),
            "yes" if one.is_blocking else "no",
            f"{one.mean_us:.1f}",
            f"{one.low_us:.1f}–{one.high_us:.1f}",
            str(one.messages),
        )
        for place, found in places.items()
        for one in found
    ]
    print(table(heads, rows))
    for place, found in places.items():
        for line in orderings(found):
            print(f"{place}: {line}")
    if reason:
        print(f"no service behind a link: {reason}")
    print()


def _print_load(load: Load) -> None:
    print(
        f"{load.clients:,} clients, each with a publication of {load.publication_bytes} bytes every "
        f"{load.period_s:g} s: {load.rate:,.0f} a second arrived; of {load.sent:,} that were sent "
        f"{load.taken:,} were taken"
    )
    heads = ("process", "CPU of a core", "a core carries, publications/s")
    rows = [
        (name, f"{100 * share:.1f} %", f"{load.rate / share:,.0f}" if share else "–")
        for name, share in (("broker", load.broker_share), ("instance", load.instance_share))
    ]
    print(table(heads, rows))


if __name__ == "__main__":
    main()
