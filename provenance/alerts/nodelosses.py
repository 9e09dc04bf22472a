"""Alerts about what a node took from ranks, whatever calls they were in: each incident once."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.incidents.sentence import sentence
from chimbuko.provenance.alerts.alert import Alert, AlertedRun, AlertKind
from chimbuko.provenance.alerts.costgate import CostGate
from chimbuko.provenance.alerts.events import Event, IncidentsChanged, Resumed


class LossAlert(Alert, frozen=True, kw_only=True, tag="loss"):
    """Alert about an incident whose origin is no call."""

    incident: str
    """Id of the incident in the run."""
    type: str
    """Cause of the loss, ``stopped`` or ``waited for core``."""
    node: str
    program: int
    ranks: list[int]
    """Ranks that were kept from running."""
    begin_us: int
    """When it began, in µs since the epoch."""
    cost_us: float
    """Core time lost so far, on all ranks."""


class LossAlerts(AlertKind):
    """Alerts about incidents whose origin is no call, once they have cost enough."""

    def __init__(self, run: AlertedRun) -> None:
        super().__init__(run)
        self._gate = CostGate(run.least_us)

    def alerts(self, event: Event) -> Iterator[Alert]:
        """Yield an alert of each such incident that is new and severe."""
        match event:
            case Resumed(stored):
                for one in stored.of_nodes():
                    self._gate.know(one.number, one.cost_us)
            case IncidentsChanged(incidents):
                losses = [one for one in incidents if one.is_loss]
                page = self.run.page("incident") if losses else ""
                for one in losses:
                    if self._gate.passes(one.number, one.cost_us):
                        yield LossAlert(
                            run=self.run.id,
                            sentence=sentence(one),
                            dashboard=page and f"{page}/{one.id}",
                            incident=one.id,
                            type=one.kind,
                            node=one.node,
                            program=one.program,
                            ranks=sorted({loss.rank for loss in one.losses}),
                            begin_us=one.begin_us,
                            cost_us=one.cost_us,
                        )
