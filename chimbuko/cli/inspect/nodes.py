"""``chimbuko nodes``: what the nodes of a run did, by the samples that it has stored."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from chimbuko.cli.shared.calls import parse_times, start_us
from chimbuko.cli.shared.table import MARK, Column, Output, print_json
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import format_duration_us, format_share
from chimbuko.launcher.outcome.reach import reachable_run
from chimbuko.provenance.query.nodelanes import (
    CoreLane,
    GpuLane,
    Lanes,
    OtherProcess,
    Shares,
    ThreadLane,
    other_processes,
)
from chimbuko.provenance.query.nodelist import DatedFinding, NodeFacts, node_facts, sampled_nodes
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.query.runreader import RunReader


class NodeView(msgspec.Struct, frozen=True):
    """One node from one time to another. Shares are of that time; null where nothing is known."""

    name: str
    begin_us: int
    end_us: int
    findings: list[DatedFinding]
    threads: list[ThreadLane]
    """Threads of the node, those that ran or waited most first."""
    all_threads: int
    cores: list[CoreLane]
    all_cores: int
    gpus: list[GpuLane]
    others: list[OtherProcess]
    """Processes that are none of the run's."""


@click.command("nodes", short_help="What nodes did, and what was wrong there.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--node", help="Show only this node: its threads, its cores, and who else ran there.")
@click.option("--time", metavar="A:B", help="Show only that time of --node, since the start, as in 1.5s:2s.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Threads and cores to list."
)
@click.option("--json", "as_json", is_flag=True, help="Print all fields as JSON.")
def command(run: Path | None, node: str | None, time: str | None, limit: int, as_json: bool) -> None:
    """List the nodes of RUN, a run's folder, or show one; by default of the newest under ./chimbuko-runs.

    Live runs sample the processes of their ranks. Of all the time there are sums over 10 s or longer, and
    around abnormal calls samples of each second and finer ones: shares are by the finest that there are.

    \b
    Examples:
      chimbuko nodes
      chimbuko nodes --node node07
      chimbuko nodes chimbuko-runs/heat --node node07 --time 12s:13.5s
      chimbuko nodes --json | jq -r '.nodes[].name'
    """
    if time is not None and node is None:
        raise ConfigError("--time is of one node: give --node, too")
    with open_run(reachable_run(run)) as provenance:
        reader, zero_us = provenance.reader, start_us(provenance)
        names = [one.name for one in sampled_nodes(reader)]
        if node is None:
            facts = {name: found for name in names if (found := node_facts(reader, name)) is not None}
            if as_json:
                listed = [{"name": name, **msgspec.to_builtins(one)} for name, one in facts.items()]
                print_json({"nodes": listed})
            elif facts:
                _print_list(facts, zero_us)
            else:
                print("no node of this run was sampled, as those of live runs are", file=sys.stderr)
            return
        if node not in names:
            raise ConfigError(f"--node {node}: there are samples of {', '.join(names) or 'none'}")
        view = _view(reader, node, parse_times(time, zero_us), limit)
    if as_json:
        print_json(view)
        return
    _print_node(view, zero_us)


def _view(reader: RunReader, node: str, wanted: tuple[int | None, int | None], limit: int) -> NodeView:
    facts = node_facts(reader, node)
    assert facts is not None
    begin_us = max(facts.begin_us, wanted[0] or 0)
    end_us = facts.end_us if wanted[1] is None else min(facts.end_us, wanted[1])
    if end_us <= begin_us:
        raise ConfigError("--time: the node was not sampled then; leave it out to see when it was")
    lanes = Lanes(reader, node, begin_us, end_us, 1)
    threads, all_threads = lanes.threads(limit, 0)
    cores, all_cores = lanes.cores(limit, 0)
    findings = [one for one in facts.findings if any(a < end_us and b > begin_us for a, b in one.times)]
    others = other_processes(reader, node, begin_us, end_us)
    return NodeView(
        node, begin_us, end_us, findings, threads, all_threads, cores, all_cores, lanes.gpus(), others[:limit]
    )


def _print_list(nodes: dict[str, NodeFacts], zero_us: int) -> None:
    columns = [
        Column("NODE"),
        Column("FROM", is_number=True),
        Column("TO", is_number=True),
        Column("RANKS", is_number=True),
        Column("CORES", is_number=True),
        Column("BUSY", is_number=True),
        Column("BY RANKS", is_number=True),
        Column("FINDINGS", may_shrink=True),
    ]
    rows = [
        [
            name,
            *(f"{(us - zero_us) / 1e6:.3f} s" for us in (one.begin_us, one.end_us)),
            f"{len(one.ranks):,}",
            f"{one.cores:,}",
            _percent(one.busy_us / one.cores_us if one.cores_us else None),
            _percent(one.own_us / one.cores_us if one.cores_us else None),
            ", ".join(f"{MARK} {found.kind}" for found in one.findings) or "none",
        ]
        for name, one in nodes.items()
    ]
    Output().table(columns, rows)


def _print_threads(output: Output, view: NodeView) -> None:
    output.heading(f"Threads: {_shown(len(view.threads), view.all_threads)}")
    columns = [
        *(Column(title, is_number=True) for title in ("RANK", "THREAD", "TID")),
        Column("NAME"),
        Column("MAY USE"),
        *(Column(title, is_number=True) for title in ("PROGRAM", "KERNEL", "WAITED")),
    ]
    output.table(
        columns,
        [
            [
                *(
                    str(one.rank),
                    str(one.thread) if one.thread >= 0 else "",
                    str(one.tid),
                    one.name,
                    one.cpus,
                ),
                *(_percent(share) for share in _of_all(one.user, one.system, one.waited)),
            ]
            for one in view.threads
        ],
    )


def _print_node(view: NodeView, zero_us: int) -> None:
    output = Output()
    begin_s, end_s = ((us - zero_us) / 1e6 for us in (view.begin_us, view.end_us))
    output.line(f"{view.name} from {begin_s:.3f} s to {end_s:.3f} s", "bold")
    for one in view.findings:
        output.line(f"{MARK} {one.kind}: {one.text}", "red")
        output.line(f"    {one.advice}")
    if not (view.threads or view.cores):
        output.line("nothing is known of that time: no process of the run was sampled then")
        return
    _print_threads(output, view)
    output.heading(f"Cores: {_shown(len(view.cores), view.all_cores)}")
    output.table(
        [Column(title, is_number=True) for title in ("CORE", "RANKS", "OTHERS", "STOLEN")],
        [
            [str(one.cpu), *(_percent(share) for share in _of_all(one.own, one.others, one.stolen))]
            for one in view.cores
        ],
    )
    if view.gpus:
        output.heading("GPUs:")
        columns = [
            Column("GPU", is_number=True),
            Column("NAME", may_shrink=True),
            *(
                Column(title, is_number=True)
                for title in ("BUSY", "SLOWED DOWN", "MEMORY", "POWER", "AT MOST")
            ),
        ]
        output.table(columns, [_gpu(one) for one in view.gpus])
    if view.others:
        output.heading("Other processes:")
        output.table(
            [
                Column("PROCESS", is_number=True),
                Column("USER"),
                Column("RAN", is_number=True),
                Column("NAME"),
            ],
            [[str(one.pid), one.user, format_duration_us(one.ran_us), one.name] for one in view.others],
        )


def _gpu(one: GpuLane) -> list[str]:
    return [
        *(str(one.gpu), one.name),
        *(_percent(share) for share in _of_all(one.busy, one.throttled)),
        f"{one.memory_used_bytes / 1e9:.1f} GB" if one.memory_total_bytes else "",
        f"{one.power_w:.0f} W" if one.power_w else "",
        f"{one.temperature_c} °C" if one.temperature_c else "",
    ]


def _of_all(*shares: Shares) -> list[float | None]:
    return [share[0] for share in shares]


def _shown(shown: int, total: int) -> str:
    return f"{total:,}" if shown == total else f"{shown:,} of {total:,}; --limit shows more"


def _percent(share: float | None) -> str:
    return "" if share is None else format_share(share)
