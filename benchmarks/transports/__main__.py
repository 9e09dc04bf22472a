"""The evidence for the choice of the transport: what each costs and loses, undisturbed and disturbed.

Run: python -m benchmarks.transports [--only kills|cost|follow|metadata ...] [--rounds N] [--json]

Takes half an hour on a machine that has nothing else to do; its tables are in docs/internals/transports.md.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from benchmarks.transports import cost, follow, kills, metadata

PARTS: dict[str, Any] = {"kills": kills, "cost": cost, "follow": follow, "metadata": metadata}
ROUNDS = {"kills": 200, "cost": 5, "follow": 20, "metadata": 10}
"""Kills, stops and joins; turns; seconds; thousands of steps."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, help=f"of each part; default {ROUNDS}")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    found = {}
    for name in options.only:
        part, load = PARTS[name], os.getloadavg()[0]
        results = part.measure(options.rounds or ROUNDS[name])
        found[name] = part.as_json(results)
        if not options.json:
            print(f"{part.text(results)}\n\nLoad {load:.1f} on {os.cpu_count()} cores before.", end="\n\n")
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
