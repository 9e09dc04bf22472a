"""Data published by programs, nodes and the workflow, for charts."""

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
"""Most ranks in one answer: a chart has no room for more."""
MOST_NODES = 64


class KnownQuantity(msgspec.Struct, frozen=True):
    """Numeric quantity that was published."""

    namespace: str
    quantity: str
    """Path of the leaf, without ``Rank N``."""
    ranks: int
    """Number of ranks that have published it."""
    points: int
    """Number of points that are kept of it, over all ranks."""


class WorkflowAnswer(Answer, frozen=True, kw_only=True):
    """Overview of everything that was published."""

    tasks: list[TaskView]
    """Tasks, in the order in which they were first reported."""
    nodes: list[NodeView]
    """Nodes by name, at most 64."""
    nodes_total: int
    mpi: list[RankTime]
    """Time in MPI, in the order of ranks."""
    quantities: list[KnownQuantity]
    """Quantities, by namespace and path."""
    left_out: int
    """Number of values for which there was no room."""


class QuantityParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Namespace and path of a quantity."""

    namespace: Annotated[Text, Meta(description="Namespace in which the quantity was published.")]
    name: Annotated[Text, Meta(description="Path of the quantity, without `Rank N`, as `workflow` gives it.")]


class QuantityAnswer(Answer, frozen=True, kw_only=True):
    """Values of one quantity, rank by rank."""

    namespace: str
    quantity: str
    lines: list[Line]
    """Values of each rank, in the order of ranks, at most 128."""
    lines_total: int


@get("/workflow")
def workflow(run: ServedRun) -> WorkflowAnswer:
    """Return tasks with their states, utilisation of nodes, time in MPI, and a list of other quantities."""
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
    """Return the values of one quantity that ranks published, over time."""
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
