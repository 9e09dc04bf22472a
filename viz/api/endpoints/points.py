"""Recorded calls for a scatter chart: as many as it can show, in columns."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from chimbuko.provenance.query.pointqueries import MOST_POINTS
from chimbuko.provenance.query.points import PointColumns
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.endpoints.calls import FilterParameters
from chimbuko.viz.api.parameters import rank_text


class PointsParameters(FilterParameters, frozen=True, kw_only=True):
    """Which calls are wanted, and how many of them at most."""

    most: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_POINTS)],
        Meta(description="Most calls in the answer: abnormal ones first, most time lost first."),
    ] = MOST_POINTS


class PointsAnswer(Answer, frozen=True, kw_only=True):
    """Calls in columns, and how many there are beside them."""

    functions: list[str]
    ranks: list[str]
    """As PROGRAM:RANK."""
    nodes: list[str]
    """Of each of ``ranks``."""
    columns: PointColumns
    anomalies: int
    """That match; where there are fewer here, these are the worst."""
    normal_calls: int
    """That were kept and match; where there are fewer here, these are spread evenly over them."""
    analysed: int | None
    """Calls that were analysed there; null where the filter asks for more than ranks, steps and label."""


@get("/points")
def points(run: ServedRun, wanted: PointsParameters) -> PointsAnswer:
    """The calls that a filter matches, as columns of numbers: at most 30,000, and how many there are in all.

    `rank`, `function` and `caller` are places in the lists of names.
    """
    found = run.provenance.points(wanted.call_filter(), wanted.most)
    return PointsAnswer(
        functions=found.functions,
        ranks=[rank_text(key) for key in found.ranks],
        nodes=found.nodes,
        columns=found.columns,
        anomalies=found.anomalies,
        normal_calls=found.normal_calls,
        analysed=found.analysed,
    )
