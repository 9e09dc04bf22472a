"""Events in the life of a run's store: what its writer has stored, as values with the time of its clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chimbuko.causes.incident import Incident
from chimbuko.core.calls.record import StreamHealth
from chimbuko.monitor.samples.nodebatch import PackedBatch
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding
from chimbuko.provenance.write.severecalls import SevereCall
from chimbuko.runtime.protocol.messages import RecordBatch


@dataclass(frozen=True)
class Resumed:
    """A writer began to explain calls, and this is stored already."""

    time_s: float
    incidents: Sequence[Incident]
    """Incidents whose origin is no call."""
    recurrences: Sequence[RecurrenceSummary]


@dataclass(frozen=True)
class CallsStored:
    """Batches are stored, with their calls."""

    time_s: float
    batches: Sequence[RecordBatch]


@dataclass(frozen=True)
class ExplainedCall:
    """A severe call, and what is known of its incident."""

    call: SevereCall
    incident: str
    """Id of the incident; empty if it is not known."""
    sentence: str
    """Sentence of the incident; empty if it is not known."""


@dataclass(frozen=True)
class SevereCallsStored:
    """Severe calls are stored that the store did not have, and explained as far as possible."""

    time_s: float
    calls: Sequence[ExplainedCall]


@dataclass(frozen=True)
class SamplesStored:
    """Samples of nodes are stored."""

    time_s: float
    batches: Sequence[PackedBatch]


@dataclass(frozen=True)
class HealthStored:
    """Event: reports of agents about their ranks were stored."""

    time_s: float
    health: Sequence[StreamHealth]


@dataclass(frozen=True)
class IncidentsStored:
    """Incidents that are new or have changed are stored."""

    time_s: float
    incidents: Sequence[Incident]


@dataclass(frozen=True)
class RecurrencesStored:
    """Event: recurring findings were looked for again, and stored."""

    time_s: float
    recurrences: Sequence[RecurrenceSummary]
    """All that recurs, the most costly first."""


@dataclass(frozen=True)
class MetricFindingsStored:
    """Findings in published quantities are stored that the store did not have."""

    time_s: float
    findings: Sequence[MetricFinding]


@dataclass(frozen=True)
class Tick:
    """Some time has passed."""

    time_s: float
    is_urgent: bool = False
    """Whether what could wait for a while shall not, as its run, or a rank of it, is at its end."""


StoreEvent = (
    Resumed
    | CallsStored
    | SevereCallsStored
    | SamplesStored
    | HealthStored
    | IncidentsStored
    | RecurrencesStored
    | MetricFindingsStored
    | Tick
)
