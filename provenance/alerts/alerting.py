"""Alerts of one run: events go to all kinds of alerts, and what they deserve to all sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from chimbuko.provenance.alerts.agents import AgentAlerts
from chimbuko.provenance.alerts.alert import AlertedRun, AlertKind
from chimbuko.provenance.alerts.calls import CallAlerts
from chimbuko.provenance.alerts.deadlocks import DeadlockAlerts
from chimbuko.provenance.alerts.events import Event
from chimbuko.provenance.alerts.metrics import MetricAlerts
from chimbuko.provenance.alerts.nodelosses import LossAlerts
from chimbuko.provenance.alerts.recurrences import RecurrenceAlerts
from chimbuko.provenance.alerts.sink import Sink
from chimbuko.provenance.alerts.sinkqueue import SinkQueue

KINDS: tuple[type[AlertKind], ...] = (
    CallAlerts,
    RecurrenceAlerts,
    LossAlerts,
    MetricAlerts,
    AgentAlerts,
    DeadlockAlerts,
)


class Alerting:
    """Alerts of a run, which nobody waits for.

    Parameters
    ----------
    run
        Run that the alerts are about; None for no alerts.
    report
        Takes a line for the user.
    """

    def __init__(self, run: AlertedRun | None, sinks: Sequence[Sink], report: Callable[[str], None]) -> None:
        self._kinds = [] if run is None else [kind(run) for kind in KINDS]
        self._queues = [] if run is None else [SinkQueue(sink, report) for sink in sinks]

    def take(self, event: Event) -> None:
        """Send the alerts that an event deserves.

        Raises
        ------
        redis.RedisError
            The broker is away.
        StoreError
            The store cannot be read.
        """
        for kind in self._kinds:
            for alert in kind.alerts(event):
                body = msgspec.json.encode(alert)
                for queue in self._queues:
                    queue.put(body)

    @property
    def is_urgent(self) -> bool:
        """Whether alerts wait for the incidents that explain them."""
        return any(kind.is_urgent for kind in self._kinds)

    def stop(self) -> None:
        """Hand over what waits, if that does not take long."""
        for queue in self._queues:
            queue.stop()
