"""Nodes: activity of their threads, cores and ranks, from the samples of the node monitor."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.provenance.query.nodelanes import CoreLane, GpuLane, Lanes, ThreadLane
from chimbuko.provenance.query.nodelist import NodeFacts, SampledNode, node_facts, sampled_nodes
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get
from chimbuko.viz.api.parameters import ListCursor, PageParameters, page_of

MOST_COLUMNS = 400
MOST_LANES = 100
MOST_US = 1 << 53

NodeName = Annotated[
    str, Meta(max_length=255, pattern=r"^[^/.\x00-\x1f][^/\x00-\x1f]*$", description="Name of a node.")
]


class NodesAnswer(Answer, frozen=True, kw_only=True):
    """Page of the list of nodes."""

    nodes: list[SampledNode]
    """Nodes, by name."""
    next: str | None
    total: int


class NodeParameters(msgspec.Struct, frozen=True):
    """Name of a node."""

    node: NodeName


class NodeAnswer(Answer, frozen=True, kw_only=True):
    """Node: its hardware, its ranks, and its findings."""

    node: NodeFacts


class TimesParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Node, range of time, and number of intervals."""

    node: NodeName
    begin_us: Annotated[
        int, Meta(ge=0, le=MOST_US, description="Beginning of the first interval, in µs since the epoch.")
    ]
    length_us: Annotated[int, Meta(ge=1, le=MOST_US, description="Length of all intervals together.")]
    columns: Annotated[
        int, Meta(ge=1, le=MOST_COLUMNS, description="Number of intervals, all of one length.")
    ] = 200


class LanesParameters(TimesParameters, frozen=True, kw_only=True):
    """Node, range of time, number of intervals, and the wanted page of the list."""

    limit: Annotated[int, Meta(ge=1, le=MOST_LANES, description="Most entries in one answer.")] = 16
    cursor: ListCursor = None


class LanesAnswer(Answer, frozen=True, kw_only=True):
    """Page of a list of lanes."""

    next: str | None
    total: int


class ThreadsAnswer(LanesAnswer, frozen=True, kw_only=True):
    """Activity of threads over time."""

    threads: list[ThreadLane]
    """Threads, those that ran or waited most first."""


class CoresAnswer(LanesAnswer, frozen=True, kw_only=True):
    """Activity of cores over time."""

    cores: list[CoreLane]
    """Cores, those on which ranks ran first."""


class GpusAnswer(Answer, frozen=True, kw_only=True):
    """Activity of GPUs over time."""

    gpus: list[GpuLane]
    """GPUs, by number; empty if there are none, or their maker's package is not installed."""


@get("/nodes")
def nodes(run: ServedRun, wanted: PageParameters) -> NodesAnswer:
    """List the nodes of which there are samples."""
    found = sampled_nodes(run.provenance.reader)
    page, following = page_of(found, wanted)
    return NodesAnswer(nodes=page, next=following, total=len(found))


@get("/nodes/{node}")
def node(run: ServedRun, wanted: NodeParameters) -> NodeAnswer:
    """Return one node: its hardware, the activity of its ranks in all, and its findings in words."""
    facts = node_facts(run.provenance.reader, wanted.node)
    if facts is None:
        raise Missing(f"there are no samples of node {wanted.node} in this run")
    return NodeAnswer(node=facts)


@get("/nodes/{node}/threads")
def node_threads(run: ServedRun, wanted: LanesParameters) -> ThreadsAnswer:
    """Return the activity of the threads of a node over time, in intervals of one length.

    If intervals are short enough they come from samples of 1 s and, around abnormal calls, of 20 ms,
    else by sums over 10 s and more.
    """
    first = int(wanted.cursor or 0)
    found, total = _lanes(run, wanted).threads(wanted.limit, first)
    return ThreadsAnswer(
        threads=found,
        next=_next(wanted, total),
        total=total,
    )


@get("/nodes/{node}/cores")
def node_cores(run: ServedRun, wanted: LanesParameters) -> CoresAnswer:
    """Return the use of a node's cores over time, in intervals of one length: by ranks, others or nobody."""
    first = int(wanted.cursor or 0)
    found, total = _lanes(run, wanted).cores(wanted.limit, first)
    return CoresAnswer(
        cores=found,
        next=_next(wanted, total),
        total=total,
    )


@get("/nodes/{node}/gpus")
def node_gpus(run: ServedRun, wanted: TimesParameters) -> GpusAnswer:
    """Return the activity of the GPUs of a node over time, in intervals of one length."""
    return GpusAnswer(gpus=_lanes(run, wanted).gpus())


def _lanes(run: ServedRun, wanted: TimesParameters) -> Lanes:
    end_us = wanted.begin_us + wanted.length_us
    return Lanes(run.provenance.reader, wanted.node, wanted.begin_us, end_us, wanted.columns)


def _next(wanted: LanesParameters, total: int) -> str | None:
    end = int(wanted.cursor or 0) + wanted.limit
    return str(end) if end < total else None
