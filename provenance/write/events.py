"""Events in the life of a run's store: what its writer has stored, as values with the time of its clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from chimbuko.causes.evidence.needed import needed
from chimbuko.causes.incident import Asked, Incident
from chimbuko.core.calls.record import CallRecord, StreamHealth
from chimbuko.monitor.sampling.nodebatch import PackedBatch
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding
from chimbuko.provenance.write.severecalls import SevereCall
from chimbuko.runtime.protocol.messages import RecordBatch


class Resumed(msgspec.Struct, frozen=True):
    """A writer began to explain calls, and this is stored already."""

    time_s: float
    incidents: Sequence[Incident]
    """Incidents whose origin is no call."""
    recurrences: Sequence[RecurrenceSummary]


class CallsStored(msgspec.Struct, frozen=True, dict=True):
    """Batches are stored, with their calls."""

    time_s: float
    batches: Sequence[RecordBatch]

    @cached_property
    def records(self) -> Sequence[CallRecord]:
        """Calls of all batches, as causes need them."""
        return [one for batch in self.batches for one in needed(batch.records, batch.health)]


class ExplainedCall(msgspec.Struct, frozen=True):
    """A severe call, and what is known of its incident."""

    call: SevereCall
    incident: str
    """Id of the incident; empty if it is not known."""
    sentence: str
    """Sentence of the incident; empty if it is not known."""


class SevereCallsStored(msgspec.Struct, frozen=True):
    """Severe calls are stored that the store did not have, and explained as far as possible."""

    time_s: float
    calls: Sequence[ExplainedCall]


class SamplesStored(msgspec.Struct, frozen=True):
    """Samples of nodes are stored."""

    time_s: float
    batches: Sequence[PackedBatch]


class HealthStored(msgspec.Struct, frozen=True):
    """Event: reports of agents about their ranks were stored."""

    time_s: float
    health: Sequence[StreamHealth]


class IncidentsStored(msgspec.Struct, frozen=True):
    """Incidents that are new or have changed are stored."""

    time_s: float
    incidents: Sequence[Incident]


class RanksAsked(msgspec.Struct, frozen=True):
    """Event: ranks were asked who waited, or are known to have answered."""

    time_s: float
    asked: Mapping[int, Asked]
    """Ranks by the number of the incident."""


class RecurrencesStored(msgspec.Struct, frozen=True):
    """Event: recurring findings were looked for again, and stored."""

    time_s: float
    recurrences: Sequence[RecurrenceSummary]
    """All that recurs, the most costly first."""


class MetricFindingsStored(msgspec.Struct, frozen=True):
    """Findings in published quantities are stored that the store did not have."""

    time_s: float
    findings: Sequence[MetricFinding]


class Tick(msgspec.Struct, frozen=True):
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
