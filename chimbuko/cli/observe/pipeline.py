"""``chimbuko model pipeline``: what a run of so many ranks asks of its parts, and which is full first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
import msgspec

from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import format_share, parse_duration_us
from chimbuko.plan.bottleneck import Bottleneck, bottleneck
from chimbuko.plan.loads import STORES, Pipeline, measured
from chimbuko.plan.noise import Effect, effects
from chimbuko.plan.simulation import Simulated, simulate

DEFAULT = Pipeline(1)
_POSITIVE = click.FloatRange(min=0, min_open=True, max=math.inf, max_open=True)


@click.command("pipeline", short_help="Simulate a run of many ranks, and what is full first.")
@click.option("--ranks", type=click.IntRange(min=1), required=True, help="Number of ranks of the whole run.")
@click.option(
    "--per-node",
    type=click.IntRange(min=1),
    default=DEFAULT.per_node,
    show_default=True,
    help="Number of ranks on each node.",
)
@click.option(
    "--period",
    type=_POSITIVE,
    default=DEFAULT.period_s,
    show_default=True,
    help="Seconds between two steps.",
)
@click.option(
    "--rows",
    type=_POSITIVE,
    default=DEFAULT.rows_per_s,
    show_default=True,
    help="Events of each rank in a second.",
)
@click.option(
    "--findings",
    type=click.FloatRange(min=0, max=math.inf, max_open=True),
    default=DEFAULT.findings_per_s,
    show_default=True,
    help="Abnormal calls of each node in a second.",
)
@click.option(
    "--agent-cores",
    type=_POSITIVE,
    default=DEFAULT.agent_cores,
    show_default=True,
    help="Cores of a node for its agent and readers.",
)
@click.option(
    "--server-parts",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of processes of the parameter server.",
)
@click.option(
    "--leaf-servers",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of leaf servers below it.",
)
@click.option(
    "--broker-nodes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of nodes of the cluster that is the broker.",
)
@click.option(
    "--store-writers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of processes that write to the store.",
)
@click.option(
    "--store",
    type=click.Choice(list(STORES)),
    default=DEFAULT.store,
    show_default=True,
    help="Engine of the store; several writers of SQLite take turns.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=20.0,
    show_default=True,
    help="Seconds that are simulated.",
)
@click.option(
    "--meets",
    default="10ms",
    metavar="DURATION",
    show_default=True,
    help="Time from one collective operation of all ranks to the next.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON, with times in seconds.")
def command(
    ranks: int,
    per_node: int,
    period: float,
    rows: float,
    findings: float,
    agent_cores: float,
    server_parts: int,
    leaf_servers: int,
    broker_nodes: int,
    store_writers: int,
    store: str,
    seconds: float,
    meets: str,
    as_json: bool,
) -> None:
    """Simulate streams, agents, broker, server, writer and dashboard of a run of many ranks.

    Each part takes what was measured for a unit of its work. Printed is what each asks of its cores, how far
    behind it is, its memory and what it loses; which one is full first, and with which options there is room.
    Last comes what the analysis adds to the run time of the application, whose ranks wait for each other.

    \b
    Examples:
      chimbuko model pipeline --ranks 100000
      chimbuko model pipeline --ranks 100000 --period 5 --server-parts 4
      chimbuko model pipeline --ranks 72000 --per-node 8 --store-writers 8 --store postgresql
      chimbuko model pipeline --ranks 72000 --per-node 8 --leaf-servers 36 --broker-nodes 4
      chimbuko model pipeline --ranks 10000 --findings 10 --json | jq .bottleneck
    """
    sizes = ranks, per_node, period, rows, findings, agent_cores, server_parts, store_writers, store
    run = Pipeline(*sizes, leaf_servers=leaf_servers, broker_nodes=broker_nodes)
    costs = measured()
    found, fullest = simulate(run, costs, seconds), bottleneck(run, costs)
    meets_s = parse_duration_us(meets) / 1e6
    if meets_s <= 0:
        raise ConfigError(f"--meets {meets}: ranks meet after some time; give one like 10ms")
    added = effects(run, costs, meets_s)
    if as_json:
        print_json(_as_json(found, fullest, added))
        return
    _show(found, fullest)
    _show_application(added, meets)


def _as_json(found: Simulated, fullest: Bottleneck, added: Sequence[Effect]) -> dict[str, Any]:
    return asdict(found) | {
        "application": [msgspec.structs.asdict(one) for one in added],
        "model_lag_s": found.model_lag_s,
        "store_lag_s": found.store_lag_s,
        "bottleneck": asdict(fullest),
    }


def _show(found: Simulated, fullest: Bottleneck) -> None:
    output = Output()
    columns = [Column("PART"), Column("CORES", True), Column("FULL", True), Column("LAG, MEDIAN S", True)]
    columns += [Column("P99 S", True), Column("MEMORY MB", True), Column("LOST", True)]
    rows = [
        [
            one.load.part,
            f"{one.load.cores:.2f}",
            format_share(one.load.share),
            f"{one.lag_p50_s:.3f}",
            f"{one.lag_p99_s:.3f}",
            f"{one.memory_bytes / 1e6:,.0f}",
            format_share(one.lost_share, ".1f"),
        ]
        for one in found.parts
    ]
    output.table(columns, rows)
    output.line(
        f"{found.run.nodes:,} nodes; model {found.model_lag_s:.2f} s and store {found.store_lag_s:.2f} s "
        f"behind; {format_share(found.put_off_share)} of the messages wait for the one before"
    )
    output.line(
        f"{found.wire_bytes_per_s / 1e6:,.1f} MB/s between agents and broker, "
        f"{found.frame_bytes_per_s / 1e6:,.1f} MB/s for each dashboard, "
        f"{3.6 * found.store_bytes_per_s / 1e6:,.1f} GB an hour in the store"
    )
    full = "" if fullest.full_at_ranks is None else f", all of it with {fullest.full_at_ranks:,} ranks"
    output.line(f"full first: {fullest.part}, {format_share(fullest.share)} of what it has{full}", "bold")
    if fullest.remedy:
        output.line(f"to do: {fullest.remedy}")


def _show_application(added: Sequence[Effect], meets: str) -> None:
    output = Output()
    output.heading(f"What the analysis adds to the application, whose ranks meet every {meets}")
    columns = [Column("THE ANALYSIS WORKS"), Column("ADDED", True), Column("HOW TO HAVE IT SO")]
    output.table(columns, [[one.where, format_share(one.added_share, ".2f"), one.advice] for one in added])
