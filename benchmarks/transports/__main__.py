"""The evidence for the choice of the transport: what each costs and loses, undisturbed and disturbed.

Run: python -m benchmarks.transports [--only kills|cost|follow|metadata ...] [--rounds N] [--json]

All of it takes half an hour, on a machine that has nothing else to do; docs/transports.md has the tables.
"""

from __future__ import annotations

import argparse
import json
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
        part = PARTS[name]
        results = part.measure(options.rounds or ROUNDS[name])
        found[name] = part.as_json(results)
        if not options.json:
            print(part.text(results), end="\n\n", flush=True)
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
