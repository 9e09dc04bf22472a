"""What server and broker take for more ranks than a machine can simulate, from what was measured.

Run: python -m benchmarks.server --json > all.json
     python -m benchmarks.server --only nodes ranks --part 0.2 --json > part.json
     python -m benchmarks.server.plan all.json part.json

What a run costs per second is taken for the sum of something fixed, something per message and something per
rank: least squares, none of them negative, through loads with different numbers of messages and ranks.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.measuring import table

RANKS = (1_000, 10_000, 40_000, 100_000, 400_000)
RANKS_PER_NODE = 40


QUANTITIES = ("server_cores", "broker_cores", "wire_bytes")


@dataclass(frozen=True)
class UnitCosts:
    """Per second."""

    fixed: float
    message: float
    rank: float

    @classmethod
    def fitted(cls, messages_per_s: list[float], ranks: list[float], costs: list[float]) -> UnitCosts:
        """From loads."""
        unknowns = np.column_stack([np.ones(len(costs)), messages_per_s, ranks])
        # Each load counts alike, however large.
        shares = np.array(costs)
        solution, _ = nnls(unknowns / shares[:, np.newaxis], np.ones(len(costs)))
        return cls(*solution.tolist())

    def of(self, ranks: float, messages_per_s: float) -> float:
        """All together."""
        return self.fixed + self.message * messages_per_s + self.rank * ranks


def costs_of(results: list[dict[str, Any]]) -> dict[str, UnitCosts]:
    """Cores of server and broker, and bytes per second; of the loads with the fewest functions."""
    functions = min(one["functions"] for one in results)
    alike = [one for one in results if one["functions"] == functions]
    if len(alike) < 3:
        raise SystemExit("three loads of as many functions are needed, with different messages and ranks")
    messages_per_s = [one["messages"] / one["seconds"] for one in alike]
    ranks = [float(one["ranks"]) for one in alike]
    found = {}
    for quantity in QUANTITIES:
        costs = [
            rate * one["bytes_per_message"] if quantity == "wire_bytes" else one[quantity]
            for rate, one in zip(messages_per_s, alike, strict=True)
        ]
        found[quantity] = UnitCosts.fitted(messages_per_s, ranks, costs)
    return found


def units_table(costs: dict[str, UnitCosts]) -> str:
    """Unit costs."""
    scales = {
        "server_cores": ("server, µs", 1e6),
        "broker_cores": ("broker, µs", 1e6),
        "wire_bytes": ("wire, bytes", 1.0),
    }
    rows = []
    for quantity, (name, scale) in scales.items():
        cost = costs[quantity]
        rows.append((name, *(f"{scale * part:,.1f}" for part in (cost.fixed, cost.message, cost.rank))))
    return table(("per second", "fixed", "per message", "per rank"), rows)


def plan_table(costs: dict[str, UnitCosts], frame_bytes: float) -> str:
    """One agent per node, one message per second; ``frame_bytes`` per rank and second."""
    heads = ("ranks", "nodes", "messages/s", "MB/s", "server, cores", "broker, cores", "frames MB/s")
    rows = []
    for ranks in RANKS:
        messages = ranks / RANKS_PER_NODE
        rows.append(
            (
                f"{ranks:,}",
                f"{messages:,.0f}",
                f"{messages:,.0f}",
                f"{costs['wire_bytes'].of(ranks, messages) / 1e6:,.1f}",
                *(f"{costs[name].of(ranks, messages):.2f}" for name in ("server_cores", "broker_cores")),
                f"{frame_bytes * ranks / 1e6:,.1f}",
            )
        )
    return table(heads, rows)


def full_at(cost: UnitCosts) -> int:
    """With how many ranks one core is full."""
    return int((1.0 - cost.fixed) / (cost.rank + cost.message / RANKS_PER_NODE))


def main() -> None:
    """Print the plan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "results", type=Path, nargs="+", help="what 'python -m benchmarks.server --json' has printed"
    )
    options = parser.parse_args()
    results = [one for path in options.results for one in json.loads(path.read_text())]
    costs = costs_of(results)
    print(units_table(costs))
    print()
    print(plan_table(costs, max(one["frame_bytes_per_s"] / one["ranks"] for one in results)))
    print()
    for what, quantity in (("server", "server_cores"), ("broker", "broker_cores")):
        print(f"One core of the {what} is full at {full_at(costs[quantity]):,} ranks.")


if __name__ == "__main__":
    main()
