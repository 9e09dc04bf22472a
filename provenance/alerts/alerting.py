"""Alerts of one run: events go to all kinds of alerts, which say what is to be sent."""

from __future__ import annotations

from chimbuko.core.statemachine import Story
from chimbuko.provenance.alerts.agents import AgentAlerts
from chimbuko.provenance.alerts.alertkind import AlertKind
from chimbuko.provenance.alerts.calls import CallAlerts
from chimbuko.provenance.alerts.deadlocks import DeadlockAlerts
from chimbuko.provenance.alerts.events import Event, Instruction, Send
from chimbuko.provenance.alerts.metrics import MetricAlerts
from chimbuko.provenance.alerts.nodelosses import LossAlerts
from chimbuko.provenance.alerts.recurrences import RecurrenceAlerts

KINDS: tuple[type[AlertKind], ...] = (
    CallAlerts,
    RecurrenceAlerts,
    LossAlerts,
    MetricAlerts,
    AgentAlerts,
    DeadlockAlerts,
)


class Alerting:
    """Alerts of a run: a state machine without a clock, a store, a broker or a sink.

    It is made up of one for each kind of alert, each of which draws its own states:
    those of functions, findings, incidents, agents and programs, by what was reported of them.

    Parameters
    ----------
    run
        Id of the run.
    least_us
        Severity or cost from which a finding is worth an alert.
    """

    def __init__(self, run: str, least_us: float) -> None:
        self._kinds = [kind(run, least_us) for kind in KINDS]
        self.story = Story()

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        for kind in self._kinds:
            kind.validate_state()

    def handle(self, event: Event) -> list[Instruction]:
        """Take an event, and return the alerts that it deserves, and where to look."""
        instructions = [one for kind in self._kinds for one in kind.handle(event)]
        for one in instructions:
            sent = type(one.alert if isinstance(one, Send) else one).__name__
            self.story.note(event.time_s, type(event).__name__, sent)
        return instructions
