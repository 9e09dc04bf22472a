"""What the abnormal calls cost together, by what they have in common."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from chimbuko.provenance.query.aggregates import By, Total, time_width_us
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.endpoints.calls import AnomalyParameters
from chimbuko.viz.api.pages import Place, page_of
from chimbuko.viz.api.parameters import MOST, Limit


class TotalsParameters(AnomalyParameters, frozen=True, kw_only=True):
    """Of which calls, and by what they are put together."""

    by: Annotated[By, Meta(description="What the calls of one total have in common.")]
    width_us: Annotated[
        Annotated[int, Meta(ge=1, le=MOST)] | None,
        Meta(description="Least length of intervals of time; rounded up to whole seconds."),
    ] = None
    limit: Limit = 50
    cursor: Place = None


class TotalsAnswer(Answer, frozen=True, kw_only=True):
    """A piece of the list of totals."""

    totals: list[Total]
    """Those that cost most first; steps and intervals of time in their order."""
    width_us: int | None
    """Length of intervals of time; null by anything else."""
    next: str | None
    total: int


@get("/totals")
def totals(run: ServedRun, wanted: TotalsParameters) -> TotalsAnswer:
    """Sums over the abnormal calls that a filter matches, by what they have in common."""
    times = run.provenance.time_range() or (0, 0)
    width_us = time_width_us(wanted.by, wanted.width_us, times[1] - times[0])
    rows = run.provenance.totals(wanted.by, wanted.call_filter(), width_us=width_us)
    page, following = page_of(rows, wanted)
    return TotalsAnswer(
        totals=page,
        width_us=width_us if wanted.by == "time" else None,
        next=following,
        total=len(rows),
    )
