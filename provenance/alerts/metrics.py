"""Alerts about what is wrong with a quantity that programs publish: each finding once."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.provenance.alerts.alertkind import AlertKind
from chimbuko.provenance.alerts.events import Alert, Event, Instruction, Send
from chimbuko.provenance.write.events import MetricFindingsStored


class MetricAlert(Alert, frozen=True, kw_only=True, tag="metric"):
    """Alert about a published quantity."""

    finding: str
    """Id of the finding in the run."""
    type: str
    """``global drift``, ``local drift``, ``departure`` or ``not a number``."""
    quantity: str
    ranks: tuple[int, ...]
    """Ranks that stand out; none if all are alike."""
    since_step: int
    """Step of the program at which it began."""
    step: int
    """Step of the program at which it was found."""
    found_us: int
    """Time at which that step was published, in µs since 1970."""


class MetricAlerts(AlertKind):
    """Alerts about published quantities; the store remembers which of them were there before."""

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each finding that is new in the store."""
        if isinstance(event, MetricFindingsStored):
            for one in event.findings:
                found = one.finding
                alert = MetricAlert(
                    run=self.run,
                    sentence=one.sentence,
                    finding=one.id,
                    type=found.kind.value,
                    quantity=found.quantity,
                    ranks=found.ranks,
                    since_step=found.since,
                    step=found.step,
                    found_us=found.found_us,
                )
                yield Send(alert, f"incident/{one.id}")
