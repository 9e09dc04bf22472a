"""Events in the life of a run's store that may deserve alerts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from chimbuko.causes.incident import Incident
from chimbuko.core.calls.record import StreamHealth
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.protocol.messages import RecordBatch


@dataclass(frozen=True)
class Resumed:
    """A writer began to explain calls; what is stored already was reported when it came there."""

    stored: Incidents


@dataclass(frozen=True)
class RecordsCame:
    """Records came and are stored next."""

    engine: Engine
    batches: Sequence[RecordBatch]


@dataclass(frozen=True)
class Explained:
    """The records that came last are stored, and their incidents known as far as possible."""

    explanation: Callable[[str], tuple[str, str]]
    """Returns id and sentence of the incident of a call, by the call's id; empty ones where unknown."""


@dataclass(frozen=True)
class IncidentsChanged:
    """Incidents that are new or have changed are stored."""

    incidents: Sequence[Incident]


@dataclass(frozen=True)
class RecurrencesStored:
    """What recurs was found anew and stored."""

    stored: Incidents


@dataclass(frozen=True)
class MetricFindingsStored:
    """Findings in published quantities are stored."""

    provenance: Provenance
    new: frozenset[int]
    """Numbers of those that the store did not have."""


@dataclass(frozen=True)
class HealthStored:
    """What agents say of their ranks is stored."""

    health: Sequence[StreamHealth]


@dataclass(frozen=True)
class Tick:
    """Some time has passed."""

    engine: Engine


Event = (
    Resumed
    | RecordsCame
    | Explained
    | IncidentsChanged
    | RecurrencesStored
    | MetricFindingsStored
    | HealthStored
    | Tick
)
