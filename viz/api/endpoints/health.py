"""How the analysis itself fares."""

from __future__ import annotations

from chimbuko.calls.record import StreamHealth
from chimbuko.provenance.query.run import Dropped, Pruning
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.live.status import Status


class HealthAnswer(Answer, frozen=True, kw_only=True):
    """What was read, what was lost, and how old it is."""

    status: Status
    streams: list[StreamHealth]
    dropped: list[Dropped]
    """Anomalies that were found but not kept."""
    prunings: list[Pruning]
    """What was kept, and removed since."""


@get("/health")
def health(run: ServedRun) -> HealthAnswer:
    """State of the analysis: what each stream read and lost, and what is not kept."""
    return HealthAnswer(
        status=run.feed.status(),
        streams=run.feed.health(),
        dropped=run.provenance.dropped(),
        prunings=run.provenance.prunings(),
    )
