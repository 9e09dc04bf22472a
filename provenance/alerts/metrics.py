"""Alerts about what is wrong with a quantity that programs publish: each finding once."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.provenance.alerts.alert import Alert, AlertKind
from chimbuko.provenance.alerts.events import Event, MetricFindingsStored
from chimbuko.provenance.incidents.metricfindings import metric_findings


class MetricAlert(Alert, frozen=True, kw_only=True, tag="metric"):
    """Alert about a published quantity."""

    finding: str
    """Id of the finding in the run."""
    type: str
    """``global drift``, ``local drift``, ``departure`` or ``not a number``."""
    quantity: str
    ranks: tuple[int, ...]
    """Ranks that stand out; none where all are alike."""
    since_step: int
    """Step of the program at which it began."""
    step: int
    """Step of the program at which it was found."""
    found_us: int
    """When that step was published, in µs since the epoch."""


class MetricAlerts(AlertKind):
    """Alerts about published quantities."""

    def alerts(self, event: Event) -> Iterator[Alert]:
        """Yield an alert of each finding that is new in the store."""
        if not isinstance(event, MetricFindingsStored) or not event.new:
            return
        page = self.run.page("incident")
        for one in metric_findings(event.provenance.reader):
            if one.number in event.new:
                found = one.finding
                yield MetricAlert(
                    run=self.run.id,
                    sentence=one.sentence,
                    dashboard=page and f"{page}/{one.id}",
                    finding=one.id,
                    type=found.kind.value,
                    quantity=found.quantity,
                    ranks=found.ranks,
                    since_step=found.since,
                    step=found.step,
                    found_us=found.found_us,
                )
