"""What server and broker take for more ranks than a machine can simulate, from what was measured.

Run: python -m benchmarks.server --json > results.json; python -m benchmarks.server.plan results.json

Two of the loads have the same ranks, in 250 and in 10,000 messages per second: from them follow what a
message costs and what a rank costs, in CPU time and in bytes. What does not depend on either is counted with
the ranks, so that the plan errs on the high side.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import table

RANKS = (1_000, 10_000, 40_000, 100_000, 400_000)
RANKS_PER_NODE = 40


@dataclass(frozen=True)
class UnitCosts:
    """Per message, and per rank and second."""

    message: float
    rank: float

    @classmethod
    def between(cls, few: tuple[float, float], many: tuple[float, float], ranks: int) -> UnitCosts:
        """From (messages, what they cost) per second, once with few and once with many messages."""
        message = max((many[1] - few[1]) / (many[0] - few[0]), 0.0)
        return cls(message, (few[1] - message * few[0]) / ranks)

    def of(self, ranks: int, messages: float) -> float:
        """Per second."""
        return self.message * messages + self.rank * ranks


def loads_of(results: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the loads with the fewest functions that with the fewest agents, and that with the most."""
    functions = min(one["functions"] for one in results)
    alike = sorted((one for one in results if one["functions"] == functions), key=lambda one: one["agents"])
    if len(alike) < 2 or alike[0]["ranks"] != alike[-1]["ranks"]:
        raise SystemExit("two loads of the same ranks are needed: --only nodes ranks")
    return alike[0], alike[-1]


def costs_of(few: dict[str, Any], many: dict[str, Any]) -> dict[str, UnitCosts]:
    """Cores of server and broker, and bytes per second."""
    rates = [one["messages"] / one["seconds"] for one in (few, many)]
    found = {}
    for name in ("server_cores", "broker_cores"):
        found[name] = UnitCosts.between((rates[0], few[name]), (rates[1], many[name]), few["ranks"])
    bytes_few, bytes_many = (
        rate * one["bytes_per_message"] for rate, one in zip(rates, (few, many), strict=True)
    )
    found["bytes"] = UnitCosts.between((rates[0], bytes_few), (rates[1], bytes_many), few["ranks"])
    return found


def units_table(costs: dict[str, UnitCosts]) -> str:
    """Unit costs."""
    rows: list[tuple[str, ...]] = [
        (what, f"{1e6 * costs[name].message:,.0f}", f"{1e6 * costs[name].rank:,.1f}")
        for what, name in (("server, µs", "server_cores"), ("broker, µs", "broker_cores"))
    ]
    rows.append(("wire, bytes", f"{costs['bytes'].message:,.0f}", f"{costs['bytes'].rank:,.0f}"))
    return table(("", "per message", "per rank and second"), rows)


def plan_table(costs: dict[str, UnitCosts], few: dict[str, Any]) -> str:
    """One agent per node, one message per second."""
    heads = ("ranks", "nodes", "messages/s", "MB/s", "server, cores", "broker, cores", "frames MB/s")
    rows = []
    for ranks in RANKS:
        messages = ranks / RANKS_PER_NODE
        rows.append(
            (
                f"{ranks:,}",
                f"{messages:,.0f}",
                f"{messages:,.0f}",
                f"{costs['bytes'].of(ranks, messages) / 1e6:,.1f}",
                *(f"{costs[name].of(ranks, messages):.2f}" for name in ("server_cores", "broker_cores")),
                f"{few['frame_bytes_per_s'] * ranks / few['ranks'] / 1e6:,.1f}",
            )
        )
    return table(heads, rows)


def full_at(cost: UnitCosts) -> int:
    """With how many ranks one core is full."""
    return int(1.0 / (cost.rank + cost.message / RANKS_PER_NODE))


def main() -> None:
    """Print the plan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("results", type=Path, help="what 'python -m benchmarks.server --json' has printed")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    few, many = loads_of(results)
    costs = costs_of(few, many)
    print(units_table(costs))
    print()
    print(plan_table(costs, few))
    print()
    for what, name in (("server", "server_cores"), ("broker", "broker_cores")):
        print(f"One core of the {what} is full at {full_at(costs[name]):,} ranks.")


if __name__ == "__main__":
    main()
