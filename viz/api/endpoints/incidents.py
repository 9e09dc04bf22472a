"""Incidents: delays with their causes, each once, and recurring findings."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.causes.incident import Incident
from chimbuko.causes.wording import Bound
from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.provenance.history.remembering import known_in_series
from chimbuko.provenance.incidents.incidentlist import (
    Incidents,
    IncidentSort,
    IncidentSummary,
    RecurrenceSummary,
    set_mark,
)
from chimbuko.provenance.incidents.marks import MOST_CHARACTERS, Mark, MarkState
from chimbuko.provenance.incidents.metricfindings import MetricFinding, metric_finding, metric_findings
from chimbuko.provenance.incidents.origins import Origin, OriginBy, origins
from chimbuko.provenance.query.filters import Whole
from chimbuko.provenance.query.nodelist import FOREVER_US, NodeCost, node_costs
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get, post
from chimbuko.viz.api.parameters import MAX_LIMIT, Limit, ListCursor

Finding = Annotated[
    str,
    Meta(pattern="^[IR][1-9][0-9]{0,8}$", description="The id of an incident or a finding, as I12 or R3."),
]
IncidentId = Annotated[str, Meta(pattern="^I[0-9]{1,9}$", description="The id of an incident, as I12.")]


class TimesParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Time in which incidents are wanted."""

    from_us: Annotated[
        Whole | None, Meta(description="Only incidents that ended after this time, µs since the epoch.")
    ] = None
    to_us: Annotated[Whole | None, Meta(description="Only incidents that began before this time.")] = None

    @property
    def times(self) -> tuple[int, int] | None:
        """Return begin and end of the wanted time; None for all."""
        if self.from_us is None and self.to_us is None:
            return None
        return self.from_us or 0, FOREVER_US if self.to_us is None else self.to_us


class IncidentsParameters(TimesParameters, frozen=True, kw_only=True):
    """Filter of incidents, their order, and the wanted page of the list."""

    sort: Annotated[
        IncidentSort, Meta(description="Order of the incidents: the most costly, or the earliest first.")
    ] = "cost_us"
    with_short: Annotated[
        bool, Meta(description="Whether the short delays that are reported as one finding are listed, too.")
    ] = False
    limit: Limit = 50
    cursor: ListCursor = None


class IncidentsAnswer(Answer, frozen=True, kw_only=True):
    """Page of the list of incidents, and all recurring findings."""

    incidents: list[IncidentSummary]
    recurrences: list[RecurrenceSummary]
    """Recurring findings, the most costly first."""
    metrics: list[MetricFinding]
    """Findings in quantities that the programs publish, in the order in which they were found."""
    nodes: list[NodeCost]
    """Findings about nodes that cost time, the most costly first."""
    next: str | None
    total: int
    cost_us: float
    """Core time that all incidents of the list cost, in µs."""
    bound: Bound
    """How sure that is."""


class IncidentParameters(msgspec.Struct, frozen=True):
    """Id of an incident."""

    incident_id: IncidentId


class IncidentAnswer(Answer, frozen=True, kw_only=True):
    """Incident with its causes and everything that it held up."""

    summary: IncidentSummary
    """Summary of the incident. Its id is another one than the requested where that incident became part of
    this one.
    """
    is_gone: bool
    """Whether the final judgement has left none of its calls abnormal."""
    incident: Incident
    known: str
    """In how many earlier runs of the series the same was, and since when; empty where in none."""


class RecurrenceParameters(msgspec.Struct, frozen=True):
    """Id of a finding."""

    recurrence_id: Annotated[str, Meta(pattern="^R[0-9]{1,9}$", description="The id of a finding, as R3.")]


class RecurrenceAnswer(Answer, frozen=True, kw_only=True):
    """Recurring loss of time of one kind; examples are recorded calls."""

    summary: RecurrenceSummary
    known: str
    """In how many earlier runs of the series the same was, and since when; empty where in none."""


class MetricFindingParameters(msgspec.Struct, frozen=True):
    """Id of a finding."""

    finding_id: Annotated[str, Meta(pattern="^M[1-9][0-9]{0,8}$", description="The id of a finding, as M3.")]


class MetricFindingAnswer(Answer, frozen=True, kw_only=True):
    """Finding in a quantity that the programs publish."""

    summary: MetricFinding


class OriginsParameters(TimesParameters, frozen=True, kw_only=True):
    """Kind of the origins of incidents: ranks, or functions."""

    by: Annotated[OriginBy, Meta(description="Kind of origins: ranks, or functions.")] = "rank"
    n: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="How many.")] = 5


class OriginsAnswer(Answer, frozen=True, kw_only=True):
    """Origins of incidents at which most time was lost."""

    by: OriginBy
    n: int
    origins: list[Origin]
    """Origins, those with the most lost time first."""
    total: int
    """Number of origins in all."""
    lost_us: float
    """Core time that all incidents cost, in µs."""
    unknown_us: float
    """Core time in µs, out of `lost_us`, of incidents whose origin is not on record."""


class MarkParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mark of an incident or a finding."""

    finding: Finding
    state: Annotated[
        MarkState | None,
        Meta(description="State by the mark; null removes the mark."),
    ]
    note: Annotated[str, Meta(max_length=MOST_CHARACTERS, description="A note for others.")] = ""
    author: Annotated[
        str, Meta(max_length=80, description="Who marks it; by default the user that runs the server.")
    ] = ""


class MarkAnswer(Answer, frozen=True, kw_only=True):
    """Mark that a finding has now."""

    mark: Mark | None


@post("/marks")
def mark(run: ServedRun, wanted: MarkParameters) -> MarkAnswer:
    """Mark an incident or a finding as known or ignored, or put a note to it; null removes its mark."""
    found = Incidents(run.provenance.reader)
    try:
        mark = set_mark(found, run.feed.run, wanted.finding, wanted.state, wanted.note, wanted.author)
    except ConfigError as error:
        raise Missing(str(error)) from None
    return MarkAnswer(mark=mark)


@get("/incidents")
def incidents(run: ServedRun, wanted: IncidentsParameters) -> IncidentsAnswer:
    """List the incidents: each delay once, with its cause, and its cost over all ranks."""
    first = int(wanted.cursor or 0)
    page = Incidents(run.provenance.reader).page(
        wanted.limit, first, wanted.sort, wanted.with_short, times=wanted.times
    )
    end = first + wanted.limit
    return IncidentsAnswer(
        incidents=page.incidents,
        recurrences=Incidents(run.provenance.reader).recurrences(),
        metrics=metric_findings(run.provenance.reader),
        nodes=node_costs(run.provenance.reader),
        next=str(end) if end < page.total else None,
        total=page.total,
        cost_us=page.cost_us,
        bound=page.bound,
    )


@get("/incidents/{incident_id}")
def incident(run: ServedRun, wanted: IncidentParameters) -> IncidentAnswer:
    """Return one incident: its parts, the ranks that it held up, and for whom each of these waited."""
    try:
        details = Incidents(run.provenance.reader).one(wanted.incident_id)
    except ConfigError as error:
        raise Missing(str(error)) from error
    return IncidentAnswer(
        summary=details.summary,
        is_gone=details.is_gone,
        incident=details.incident,
        known=_known(run, details.summary.id),
    )


@get("/recurrences/{recurrence_id}")
def recurrence(run: ServedRun, wanted: RecurrenceParameters) -> RecurrenceAnswer:
    """Return one recurring finding: how often, where, since when, at what cost, and examples."""
    try:
        found = Incidents(run.provenance.reader).recurrence(wanted.recurrence_id)
    except ConfigError as error:
        raise Missing(str(error)) from error
    return RecurrenceAnswer(summary=found, known=_known(run, found.id))


def _known(run: ServedRun, finding: str) -> str:
    """Return what earlier runs say of a finding; nothing where their index cannot be read."""
    try:
        known = known_in_series(run.feed.run).get(finding)
    except StoreError:
        return ""
    return known.words if known else ""


@get("/metric-findings/{finding_id}")
def one_metric_finding(run: ServedRun, wanted: MetricFindingParameters) -> MetricFindingAnswer:
    """Return one finding in a published quantity: the problem, its ranks, and its first step."""
    try:
        found = metric_finding(run.provenance.reader, wanted.finding_id)
    except ConfigError as error:
        raise Missing(str(error)) from error
    return MetricFindingAnswer(summary=found)


@get("/origins")
def lost_at(run: ServedRun, wanted: OriginsParameters) -> OriginsAnswer:
    """List ranks, or functions, by the core time lost because of them; their own waiting stands apart."""
    found = origins(run.provenance.reader, wanted.by, wanted.n, wanted.times)
    return OriginsAnswer(by=wanted.by, n=wanted.n, **msgspec.structs.asdict(found))
