"""Description of a node, and findings between two samples, as batches carry them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from chimbuko.monitor.procfs.gpuspan import TEMPERATURE, GpuSpan, Metric
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.procfs.topologytree import Part, Topology
from chimbuko.monitor.report.findings import findings
from chimbuko.monitor.samples.nodebatch import NodeFinding, NodePart, Rows
from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.sample import Sample
from chimbuko.monitor.sampling.span import Growth, OtherLoad, Span, Standstill, ThreadSpan


def parts_of(topology: Topology) -> list[NodePart]:
    """Return all parts, outer ones first."""
    return list(_parts(topology.root, 0))


def _parts(part: Part, depth: int) -> Iterator[NodePart]:
    cpus = format_cpulist(part.cpus)
    yield NodePart(depth, part.kind, part.logical, part.physical, cpus, part.size_bytes)
    for child in part.children:
        yield from _parts(child, depth + 1)


def found_between(
    first: Sample,
    last: Sample,
    periods: int,
    threads: Rows,
    others: Rows,
    gpus: Rows,
    standstills: Mapping[int, Standstill],
    growing: tuple[Growth, ...] = (),
) -> list[NodeFinding]:
    """Return the findings between two samples.

    Parameters
    ----------
    periods
        How many lie between them.
    threads, others, gpus
        THREAD, OTHER and GPU rows of that time, summed.
    standstills
        Processes that stand still at its end.
    growing
        Processes whose memory has grown all the time.
    """
    whole = difference(first, last)
    moves = dict(zip(threads["tid"].tolist(), threads["migrations"].tolist(), strict=True))
    span = replace(
        whole,
        # Of a thread that was not there at first nobody knows what it did before.
        threads={
            tid: _over(one, periods, moves.get(tid, 0))
            for tid, one in whole.threads.items()
            if tid in first.threads
        },
        others=_others(others),
        gpus={int(row["gpu"]): _gpu(row, periods) for row in gpus},
        standstills=dict(standstills),
        growing=growing,
        periods=periods,
        still_periods=periods * whole.still_periods,
    )
    return found_in(span)


def found_in(span: Span) -> list[NodeFinding]:
    """Return the findings of a span."""
    return [NodeFinding(one.kind, one.text, one.advice) for one in findings(span)]


def _over(one: ThreadSpan, periods: int, moves: int) -> ThreadSpan:
    """Return a thread with what only its periods tell: who did nothing in all of them stood still in each."""
    return replace(one, periods=periods, migrations=moves, still_periods=periods * one.still_periods)


def _gpu(row: np.void, periods: int) -> GpuSpan:
    degrees = float(row["temperature_c"])
    heat = {TEMPERATURE: Metric(degrees, degrees * periods, degrees, degrees, periods)} if degrees else {}
    throttled = round(periods * float(row["throttled_us"] / max(1, row["length_us"])))
    return GpuSpan(row["name"].decode(errors="replace"), heat, periods, throttled)


def _others(rows: Rows) -> dict[tuple[str, str], OtherLoad]:
    """Return processes by name and user."""
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    pids: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for row in rows:
        name, user = (row[what].decode(errors="replace") for what in ("name", "user"))
        seconds[name, user] += row["ran_us"] / 1e6
        pids[name, user].add(int(row["pid"]))
    return {who: OtherLoad(ran_s, len(pids[who])) for who, ran_s in seconds.items()}
