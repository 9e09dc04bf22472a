"""Alerts about what recurs: each finding once, and again when it costs much more."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.provenance.alerts.alertkind import AlertKind, CostGate
from chimbuko.provenance.alerts.events import Alert, Event, Instruction, Send
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary
from chimbuko.provenance.write.events import RecurrencesStored, Resumed

MUCH_MORE = 10.0
"""Factor by which the cost must exceed that of the last alert for another one."""


class RecurrenceAlert(Alert, frozen=True, kw_only=True, tag="finding"):
    """Alert about something that recurs."""

    finding: str
    """Id of the finding in the run."""
    type: str
    """``slow mode``, ``drift``, ``interruptions``, ``slow ranks``, ``slow threads`` or
    ``deadlock``."""
    program: int
    function: str
    """Function of the calls; empty if they are of several."""
    calls: int
    """Number of calls that the finding is about so far."""
    cost_us: float
    """Core time that they lost together."""
    is_growth: bool
    """Whether there was an alert about the finding before, when it had cost a tenth or less."""

    @property
    def about(self) -> str:
        """Return the id of the incident or finding, whose mark counts."""
        return self.finding


class RecurrenceAlerts(AlertKind):
    """Alerts about what recurs."""

    def __init__(self, run: str, least_us: float) -> None:
        super().__init__(run, least_us)
        self._gate = CostGate(least_us, MUCH_MORE)

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        self._gate.validate_state()

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each finding that is new, or much more costly than its last alert said."""
        match event:
            case Resumed(_, _, recurrences):
                for one in recurrences:
                    self._gate.know(one.recurrence.key, one.recurrence.cost_us)
            case RecurrencesStored(_, recurrences):
                for one in recurrences:
                    is_growth = self._gate.has_passed(one.recurrence.key)
                    if self._gate.passes(one.recurrence.key, one.recurrence.cost_us):
                        yield self._alert(one, is_growth)

    def _alert(self, one: RecurrenceSummary, is_growth: bool) -> Send:
        found = one.recurrence
        alert = RecurrenceAlert(
            run=self.run,
            sentence=one.sentence,
            finding=one.id,
            type=found.kind.value,
            program=found.program,
            function=found.function,
            calls=found.calls,
            cost_us=found.cost_us,
            is_growth=is_growth,
        )
        return Send(alert, f"incident/{one.id}")
