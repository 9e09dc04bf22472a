"""Alerts about what a node took from ranks, whatever calls they were in: each incident once."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.wording import Bound
from chimbuko.provenance.alerts.alertkind import AlertKind, CostGate
from chimbuko.provenance.alerts.events import Alert, Event, Instruction, Send
from chimbuko.provenance.write.events import IncidentsStored, Resumed


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
    """Time at which the loss began, in µs since 1970."""
    cost_us: float
    """Core time lost so far, on all ranks."""
    bound: Bound
    """How sure that time is."""

    @property
    def about(self) -> str:
        """Return the id of the incident or finding, whose mark counts."""
        return self.incident


class LossAlerts(AlertKind):
    """Alerts about incidents whose origin is no call, once they have cost enough."""

    def __init__(self, run: str, least_us: float) -> None:
        super().__init__(run, least_us)
        self._gate = CostGate(least_us)

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        self._gate.validate_state()

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each such incident that is new and severe."""
        match event:
            case Resumed(_, incidents):
                for one in incidents:
                    self._gate.know(one.number, one.cost_us)
            case IncidentsStored(_, incidents):
                for one in incidents:
                    if one.is_loss and self._gate.passes(one.number, one.cost_us):
                        yield self._alert(one)

    def _alert(self, one: Incident) -> Send:
        alert = LossAlert(
            run=self.run,
            sentence=sentence(one),
            incident=one.id,
            type=one.kind,
            node=one.node,
            program=one.program,
            ranks=sorted({loss.rank for loss in one.losses}),
            begin_us=one.begin_us,
            cost_us=one.cost_us,
            bound=one.bound,
        )
        return Send(alert, f"incident/{one.id}")
