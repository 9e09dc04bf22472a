"""How far the pipeline goes: parts measured for real loads, and simulated for up to 100,000 ranks.

Run: python -m benchmarks.scaling --measure [--more] [--seconds S]    (14 minutes on two quiet cores)
     python -m benchmarks.scaling [--only units validation plan bottlenecks sharded application paper]

With --measure the services of a run serve simulated nodes, and agents read real streams; what they take is
kept in measured.json beside this file, and unit costs that follow from it in the package, where ``chimbuko
model pipeline`` has them. A machine may be slower in one quarter of an hour than in another: --more measures
all loads once more, and means count. Without these options tables are made of what was measured:
docs/internals/scaling.md is (benchmarks/report.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from benchmarks.measuring import table
from benchmarks.scaling.fitting import fitted
from benchmarks.scaling.loads import Measured, known, measure_all
from chimbuko.plan import loads as unitcosts
from chimbuko.plan.bottleneck import bottleneck, full_at
from chimbuko.plan.loads import KEEPER, LEAF, READERS, SERVICES, Pipeline, UnitCosts, measured
from chimbuko.plan.noise import effects
from chimbuko.plan.simulation import simulate

COSTS = Path(unitcosts.__file__).with_name(unitcosts.FILE)
COUNTS_FROM = 0.02
"""Of a core; less is counted in ticks of 10 ms, and no matter."""
MOST_ERROR = 0.20
RANKS = (32, 1_000, 10_000, 40_000, 100_000)
KINDS = {
    "as above": Pipeline(100_000),
    "abnormal calls on each node ten times a second": Pipeline(100_000, findings_per_s=10.0),
    "a million rows of each rank a second": Pipeline(100_000, rows_per_s=1e6),
    "a period of 0.1 s": Pipeline(100_000, period_s=0.1),
    "nodes of 4 ranks": Pipeline(100_000, per_node=4),
    "10,000 ranks": Pipeline(10_000),
    "1,000 ranks": Pipeline(1_000),
}


def units_table(costs: UnitCosts) -> str:
    """CPU time and memory of each unit of work."""
    cpu = ("second", "agent", "message", "step", "cold_step", "row", "finding")
    heads = (
        "part",
        *(f"{name.replace('_', ' ')}, µs" for name in cpu),
        "MB",
        "kB an agent",
        "kB a rank",
        "waits, ms",
        "and a step, µs",
    )
    rows = []
    for part in (READERS, *SERVICES):
        one = costs.parts[part]
        rows.append(
            (
                part,
                *(_digits(1e6 * getattr(one.cpu_s, name)) for name in cpu),
                f"{one.memory_bytes.second / 1e6:,.0f}",
                _digits(one.memory_bytes.agent / 1e3),
                _digits(one.memory_bytes.rank / 1e3),
                _digits(1e3 * one.wait_s.second),
                _digits(1e6 * one.wait_s.step),
            )
        )
    loads = sum(not one.is_held_out for one in known())
    source = f"Fitted to {loads} loads." if loads else "After the tables of other pages."
    return f"{source}\n\n{table(heads, rows)}"


def comparisons(loads: list[Measured], costs: UnitCosts) -> list[tuple[Measured, str, float, float]]:
    """Of each load: what it is that was measured, how much, and what is predicted."""
    found = []
    for one in loads:
        simulated = simulate(one.pipeline, costs)
        if not one.lags_s:
            part = simulated.part(READERS)
            found.append((one, "readers, cores", one.cores[READERS], part.load.cores))
            found.append((one, "readers, MB", one.memory_bytes[READERS] / 1e6, part.memory_bytes / 1e6))
            continue
        cores = {part: simulated.part(part).load.cores for part in SERVICES}
        found.append((one, "services, cores", sum(one.cores.values()), sum(cores.values())))
        found += [
            (one, f"{part}, cores", one.cores[part], cores[part])
            for part in SERVICES
            if one.cores[part] >= COUNTS_FROM
        ]
        memory = sum(simulated.part(part).memory_bytes for part in SERVICES)
        found.append((one, "services, MB", sum(one.memory_bytes.values()) / 1e6, memory / 1e6))
        found.append((one, "model's lag, ms", 1e3 * one.lags_s["model"], 1e3 * simulated.model_lag_s))
        found.append((one, "store's lag, ms", 1e3 * one.lags_s["store"], 1e3 * simulated.store_lag_s))
        found.append((one, "wire, MB/s", one.bytes["wire"] / 1e6, simulated.wire_bytes_per_s / 1e6))
    return found


def validation_table(loads: list[Measured], costs: UnitCosts) -> str:
    """Loads that the unit costs were not fitted to."""
    held_out = [one for one in loads if one.is_held_out]
    if not held_out:
        return "Not measured yet."
    heads = ("load", "quantity", "measured", "predicted", "error")
    found = comparisons(held_out, costs)
    rows = [
        (_name(one), quantity, f"{was:,.3g}", f"{says:,.3g}", f"{100 * (says / was - 1):+.0f} %")
        for one, quantity, was, says in found
    ]
    lines = [table(heads, rows), ""]
    for title, unit in (("cores", "cores"), ("memory", "MB"), ("lags", "ms"), ("bytes", "MB/s")):
        errors = [abs(says / was - 1.0) for _, what, was, says in found if what.endswith(f", {unit}")]
        within = sum(error <= MOST_ERROR for error in errors)
        lines.append(
            f"- {title}: {within} of {len(errors)} within {MOST_ERROR:.0%}, at most {max(errors):.0%} off"
        )
    lost = sum(one.lost for one in held_out)
    lines.append(f"- lost: {lost} messages and findings; predicted 0")
    return "\n".join(lines)


def plan_table(costs: UnitCosts) -> str:
    """The same run with more and more ranks."""
    heads = ("ranks", "nodes", *(f"{part}, cores" for part in (READERS, *SERVICES)))
    heads += ("services GB", "wire MB/s", "frames MB/s", "store GB/h", "model's lag s", "put off", "lost")
    rows = []
    for ranks in RANKS:
        one = simulate(Pipeline(ranks), costs)
        memory = sum(one.part(part).memory_bytes for part in SERVICES)
        rows.append(
            (
                f"{ranks:,}",
                f"{one.run.nodes:,}",
                *(f"{part.load.cores:.2f}" for part in one.parts),
                f"{memory / 1e9:.2f}",
                f"{one.wire_bytes_per_s / 1e6:,.1f}",
                f"{one.frame_bytes_per_s / 1e6:,.1f}",
                f"{3600 * one.store_bytes_per_s / 1e9:,.1f}",
                f"{one.model_lag_s:.2f}",
                f"{one.put_off_share:.0%}",
                f"{max(part.lost_share for part in one.parts):.0%}",
            )
        )
    full = [
        f"{part}: full at {at:,} ranks"
        for part in SERVICES
        if (at := full_at(part, Pipeline(1), costs)) is not None and at < 10_000_000
    ]
    parts = [
        f"{count} parts {at:,}"
        for count in (2, 4, 8)
        if (at := full_at("server", replace(Pipeline(1), server_parts=count), costs)) is not None
    ]
    return "\n".join(
        [table(heads, rows), "", *(f"- {line}" for line in full), f"- server in {', '.join(parts)}"]
    )


def bottlenecks_table(costs: UnitCosts) -> str:
    """What is full first in runs of several kinds, and what to do."""
    heads = ("run", "fullest part", "of its cores", "full at ranks", "what gives all parts room")
    rows = []
    for name, run in KINDS.items():
        found = bottleneck(run, costs)
        full = "any number" if found.full_at_ranks is None else f"{found.full_at_ranks:,}"
        rows.append((name, found.part, f"{found.share:.0%}", full, found.remedy or "nothing is needed"))
    return table(heads, rows)


SHARDED = {
    "10,000 ranks, as it is": Pipeline(10_000, 8),
    "72,000 ranks, as it is": Pipeline(72_000, 8),
    "72,000 ranks, 4 writers, period 5 s": Pipeline(
        72_000, 8, period_s=5.0, store_writers=4, store="postgresql"
    ),
    "72,000 ranks, 36 leaf servers": Pipeline(72_000, 8, leaf_servers=36),
    "72,000 ranks, 4 writers, 36 leaf servers, broker of 4 nodes, period 2.5 s": Pipeline(
        *(72_000, 8),
        period_s=2.5,
        store_writers=4,
        store="postgresql",
        leaf_servers=36,
        broker_nodes=4,
    ),
    "100,000 ranks, as it is": Pipeline(100_000, 8),
    "100,000 ranks, 4 writers, period 10 s": Pipeline(
        100_000, 8, period_s=10.0, store_writers=4, store="postgresql"
    ),
}
"""Runs of the largest machines, on nodes of 8 ranks, before and after what gives all parts room."""
PAPER = {80: -0.54, 160: -0.47, 320: 0.40, 640: -0.07, 1_280: 8.13, 2_560: 6.29}
"""What Chimbuko added to the run time of the paper's program beside TAU, in percent, by ranks (table I)."""
UNSEEN = 0.006
"""Share that the paper's runs up to 640 ranks may have lost unseen: they scatter by that much."""


def sharded_table(costs: UnitCosts) -> str:
    """Runs on nodes of 8 ranks: the share of its cores that each part takes."""
    parts = (*SERVICES, LEAF, KEEPER)
    heads = ("run", *parts, "model's lag, s", "store's lag, s")
    rows = []
    for name, run in SHARDED.items():
        found = simulate(run, costs)
        shares = {part.load.part: f"{part.load.share:.0%}" for part in found.parts}
        lags = (f"{found.model_lag_s:.2f}", f"{found.store_lag_s:.2f}")
        rows.append((name, *(shares.get(part, "") for part in parts), *lags))
    return table(heads, rows)


def application_table(costs: UnitCosts) -> str:
    """What the analysis adds to an application whose ranks meet every 10 ms, or every second."""
    ways = [one.where for one in effects(Pipeline(1_000), costs)]
    heads = ("ranks", *(f"{way}; meet every {text}" for text in ("10 ms", "1 s") for way in ways))
    rows = []
    for ranks in (2, 8, 80, 640, 1_280, 2_560, 10_000, 72_000, 100_000):
        cells = []
        for meets_s in (0.01, 1.0):
            found = {one.where: one.added_share for one in effects(Pipeline(ranks), costs, meets_s)}
            cells += [f"{100 * found[way]:.2f} %" for way in ways]
        rows.append((f"{ranks:,}", *cells))
    return table(heads, rows)


def paper_table() -> str:
    """Most that waits for the largest of n delays add to the paper's program, by what it lost at 640 ranks.

    Twice the ranks meet at most twice as many delays, and where the same work is divided among them their
    collectives come up to twice as often.
    """
    rows = []
    for ranks, was in PAPER.items():
        grown = max(ranks / 640, 1.0)
        rows.append(
            (
                f"{ranks:,}",
                f"{was:+.2f} %",
                f"{100 * UNSEEN * grown:.1f} %",
                f"{100 * UNSEEN * grown**2:.1f} %",
            )
        )
    heads = ("ranks", "the paper's Chimbuko adds", "at most, by ranks", "and by shorter steps")
    return table(heads, rows)


def _digits(value: float) -> str:
    return "" if not value else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _name(one: Measured) -> str:
    if not one.lags_s:
        return f"{one.ranks} streams of {one.rows_per_s:,.0f} rows/s"
    return f"{one.ranks // one.per_node} nodes of {one.per_node} ranks"


SECTIONS: dict[str, Callable[[], str]] = {
    "units": lambda: units_table(measured()),
    "validation": lambda: validation_table(known(), measured()),
    "plan": lambda: plan_table(measured()),
    "bottlenecks": lambda: bottlenecks_table(measured()),
    "sharded": lambda: sharded_table(measured()),
    "application": lambda: application_table(measured()),
    "paper": paper_table,
}


def main() -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="TABLE")
    parser.add_argument("--measure", action="store_true", help="measure all loads first")
    parser.add_argument("--more", action="store_true", help="beside those that were measured before")
    parser.add_argument("--seconds", type=int, default=40, help="how long each load lasts")
    options = parser.parse_args()
    if options.measure:
        measure_all(options.seconds, options.more)
        COSTS.write_bytes(msgspec.json.format(msgspec.json.encode(fitted(known()))) + b"\n")
        measured.cache_clear()
    print("\n\n".join(SECTIONS[name]() for name in options.only))


if __name__ == "__main__":
    main()
