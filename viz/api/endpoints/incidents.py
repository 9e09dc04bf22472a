"""Incidents: what was slow and why, each delay once, and what recurs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.causes.incident import Incident
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.incidents.incidentlist import (
    Incidents,
    IncidentSort,
    IncidentSummary,
    RecurrenceSummary,
)
from chimbuko.provenance.incidents.metricfindings import MetricFinding, metric_finding, metric_findings
from chimbuko.provenance.incidents.origins import Origin, OriginBy, origins
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get
from chimbuko.viz.api.parameters import MAX_LIMIT, Limit, Place

IncidentId = Annotated[str, Meta(pattern="^I[0-9]{1,9}$", description="The id of an incident, as I12.")]


class IncidentsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which incidents, in what order, and which piece of their list."""

    sort: Annotated[IncidentSort, Meta(description="The most costly, or the earliest first.")] = "cost_us"
    with_short: Annotated[
        bool, Meta(description="Whether the short delays that are reported as one finding are listed, too.")
    ] = False
    limit: Limit = 50
    cursor: Place = None


class IncidentsAnswer(Answer, frozen=True, kw_only=True):
    """A piece of the list of incidents, and all that recurs."""

    incidents: list[IncidentSummary]
    recurrences: list[RecurrenceSummary]
    """The most costly first."""
    metrics: list[MetricFinding]
    """What is wrong with quantities that the programs publish, in the order in which it was found."""
    next: str | None
    total: int
    cost_us: float
    """Core time that all incidents of the list cost."""


class IncidentParameters(msgspec.Struct, frozen=True):
    """Which incident."""

    incident_id: IncidentId


class IncidentAnswer(Answer, frozen=True, kw_only=True):
    """One incident with its causes and all that it held up."""

    summary: IncidentSummary
    """Its id is another than the one that was asked for where that incident became part of this one."""
    is_gone: bool
    """Whether the final judgement has left none of its calls abnormal."""
    incident: Incident


class RecurrenceParameters(msgspec.Struct, frozen=True):
    """Which finding."""

    recurrence_id: Annotated[str, Meta(pattern="^R[0-9]{1,9}$", description="The id of a finding, as R3.")]


class RecurrenceAnswer(Answer, frozen=True, kw_only=True):
    """What costs time again and again in one way; examples are recorded calls."""

    summary: RecurrenceSummary


class MetricFindingParameters(msgspec.Struct, frozen=True):
    """Which finding."""

    finding_id: Annotated[str, Meta(pattern="^M[1-9][0-9]{0,8}$", description="The id of a finding, as M3.")]


class MetricFindingAnswer(Answer, frozen=True, kw_only=True):
    """Something that is wrong with a quantity that the programs publish."""

    summary: MetricFinding


class OriginsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Where incidents began: at which ranks, or in which functions."""

    by: Annotated[OriginBy, Meta(description="What is listed.")] = "rank"
    n: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="How many.")] = 5


class OriginsAnswer(Answer, frozen=True, kw_only=True):
    """Where most time was lost at first."""

    by: OriginBy
    n: int
    origins: list[Origin]
    """Most time lost first."""
    total: int
    """How many there are to choose from."""
    lost_us: float
    """Core time that all incidents cost."""
    unknown_us: float
    """Of it: of incidents whose origin is not on record."""


@get("/incidents")
def incidents(run: ServedRun, wanted: IncidentsParameters) -> IncidentsAnswer:
    """What was slow and why: each delay once, with what it cost on all ranks."""
    first = int(wanted.cursor or 0)
    page = Incidents(run.provenance.reader).page(wanted.limit, first, wanted.sort, wanted.with_short)
    end = first + wanted.limit
    return IncidentsAnswer(
        incidents=page.incidents,
        recurrences=Incidents(run.provenance.reader).recurrences(),
        metrics=metric_findings(run.provenance.reader),
        next=str(end) if end < page.total else None,
        total=page.total,
        cost_us=page.cost_us,
    )


@get("/incidents/{incident_id}")
def incident(run: ServedRun, wanted: IncidentParameters) -> IncidentAnswer:
    """One delay: what it was made of, whom it held up, and for whom each of these waited."""
    try:
        details = Incidents(run.provenance.reader).one(wanted.incident_id)
    except ConfigError as error:
        raise Missing(str(error)) from error
    return IncidentAnswer(summary=details.summary, is_gone=details.is_gone, incident=details.incident)


@get("/recurrences/{recurrence_id}")
def recurrence(run: ServedRun, wanted: RecurrenceParameters) -> RecurrenceAnswer:
    """One finding of what recurs: how often, where, since when, at what cost, and examples."""
    try:
        found = Incidents(run.provenance.reader).recurrence(wanted.recurrence_id)
    except ConfigError as error:
        raise Missing(str(error)) from error
    return RecurrenceAnswer(summary=found)


@get("/metric-findings/{finding_id}")
def one_metric_finding(run: ServedRun, wanted: MetricFindingParameters) -> MetricFindingAnswer:
    """One finding in a published quantity: what is wrong, on which ranks, since which step."""
    try:
        found = metric_finding(run.provenance.reader, wanted.finding_id)
    except ConfigError as error:
        raise Missing(str(error)) from error
    return MetricFindingAnswer(summary=found)


@get("/origins")
def lost_at(run: ServedRun, wanted: OriginsParameters) -> OriginsAnswer:
    """Ranks, or functions, by the core time that was lost because of them; what they waited stands apart."""
    found = origins(run.provenance.reader, wanted.by, wanted.n)
    return OriginsAnswer(by=wanted.by, n=wanted.n, **msgspec.structs.asdict(found))
