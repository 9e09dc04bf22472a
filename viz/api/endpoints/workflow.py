"""What programs, nodes and the workflow published of themselves, for charts."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.observe.namespaces.analyses.views import (
    Line,
    NodeView,
    QuantityView,
    RankTime,
    TaskView,
    Views,
    read_views,
)
from chimbuko.provenance.query.filters import Text
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get

MOST_LINES = 128
"""Ranks in one answer: a chart has no room for more."""
MOST_NODES = 64


class KnownQuantity(msgspec.Struct, frozen=True):
    """A leaf with numbers that was published."""

    namespace: str
    quantity: str
    """Its path, without ``Rank N``."""
    ranks: int
    """How many have published it."""
    points: int
    """That are kept of it, over all ranks."""


class WorkflowAnswer(Answer, frozen=True, kw_only=True):
    """All that was published, in overview."""

    tasks: list[TaskView]
    """In the order in which they were first heard of."""
    nodes: list[NodeView]
    """By name, at most 64."""
    nodes_total: int
    mpi: list[RankTime]
    """In the order of ranks."""
    quantities: list[KnownQuantity]
    """By namespace and path."""
    left_out: int
    """Values for which there was no room."""


class QuantityParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which quantity."""

    namespace: Annotated[Text, Meta(description="Namespace in which it was published.")]
    name: Annotated[Text, Meta(description="Its path, without `Rank N`, as `workflow` has it.")]


class QuantityAnswer(Answer, frozen=True, kw_only=True):
    """One quantity, rank by rank."""

    namespace: str
    quantity: str
    lines: list[Line]
    """In the order of ranks, at most 128."""
    lines_total: int


@get("/workflow")
def workflow(run: ServedRun) -> WorkflowAnswer:
    """Tasks with their states, what nodes did, time in MPI, and what else was published."""
    views = _views(run)
    return WorkflowAnswer(
        tasks=views.tasks,
        nodes=views.nodes[:MOST_NODES],
        nodes_total=len(views.nodes),
        mpi=views.mpi,
        quantities=[_known(one) for one in views.quantities],
        left_out=views.left_out,
    )


@get("/quantity")
def quantity(run: ServedRun, wanted: QuantityParameters) -> QuantityAnswer:
    """What ranks published of one quantity, over time."""
    for one in _views(run).quantities:
        if (one.namespace, one.quantity) == (wanted.namespace, wanted.name):
            return QuantityAnswer(
                namespace=one.namespace,
                quantity=one.quantity,
                lines=one.lines[:MOST_LINES],
                lines_total=len(one.lines),
            )
    raise Missing(f"{wanted.name!r} was not published in namespace {wanted.namespace!r}, or is no number")


def _known(one: QuantityView) -> KnownQuantity:
    points = sum(len(line.times_us) for line in one.lines)
    return KnownQuantity(one.namespace, one.quantity, len(one.lines), points)


def _views(run: ServedRun) -> Views:
    return read_views(run.feed.run.observed_path)
