"""Alerts about what recurs: each finding once, and again when it costs much more."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.provenance.alerts.alert import Alert, AlertedRun, AlertKind
from chimbuko.provenance.alerts.costgate import CostGate
from chimbuko.provenance.alerts.events import Event, RecurrencesStored, Resumed

MUCH_MORE = 10.0
"""Factor by which the cost must exceed that of the last alert for another one."""


class RecurrenceAlert(Alert, frozen=True, kw_only=True, tag="finding"):
    """Alert about something that recurs."""

    finding: str
    """Id of the finding in the run."""
    type: str
    """``slow mode``, ``drift``, ``interruptions`` or ``slow ranks``."""
    program: int
    function: str
    """Function of the calls; empty where they are of several."""
    calls: int
    """Number of calls that are meant so far."""
    cost_us: float
    """Core time that they lost together."""
    is_growth: bool
    """Whether there was an alert of it before, when it had cost a tenth or less."""


class RecurrenceAlerts(AlertKind):
    """Alerts about what recurs."""

    def __init__(self, run: AlertedRun) -> None:
        super().__init__(run)
        self._gate = CostGate(run.least_us, MUCH_MORE)

    def alerts(self, event: Event) -> Iterator[Alert]:
        """Yield an alert of each finding that is new, or much more costly than its last alert said."""
        match event:
            case Resumed(stored):
                for one in stored.recurrences():
                    self._gate.know(one.recurrence.key, one.recurrence.cost_us)
            case RecurrencesStored(stored):
                page = self.run.page("incident")
                for one in stored.recurrences():
                    found = one.recurrence
                    is_growth = self._gate.has_passed(found.key)
                    if self._gate.passes(found.key, found.cost_us):
                        yield RecurrenceAlert(
                            run=self.run.id,
                            sentence=one.sentence,
                            dashboard=page and f"{page}/{one.id}",
                            finding=one.id,
                            type=found.kind.value,
                            program=found.program,
                            function=found.function,
                            calls=found.calls,
                            cost_us=found.cost_us,
                            is_growth=is_growth,
                        )
