"""Alert about a run, and what each kind of alert has in common with the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import msgspec

from chimbuko.provenance.alerts.events import Event
from chimbuko.runtime.protocol.runbroker import RunBroker


class Alert(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Envelope that all alerts have; each kind adds its own fields."""

    run: str
    """Id of the run."""
    sentence: str
    """What happened, in words; empty where it is not known yet."""
    dashboard: str
    """Address of the page about it, without the token; empty where there is no dashboard."""


@dataclass(frozen=True)
class AlertedRun:
    """Run that alerts are about."""

    id: str
    broker: RunBroker
    least_us: float
    """Severity or cost from which on a finding is worth an alert."""

    def page(self, *path: str) -> str:
        """Return the address of a page of the run; empty where there is no dashboard.

        Raises
        ------
        redis.RedisError
            The broker is away.
        """
        address = cast("bytes | None", self.broker.client.get(self.broker.keys.dashboard))
        return f"{address.decode()}r/{self.id}/{'/'.join(path)}" if address else ""


class AlertKind:
    """One kind of alert: which events of a run deserve one, and what it says."""

    def __init__(self, run: AlertedRun) -> None:
        self.run = run

    @property
    def is_urgent(self) -> bool:
        """Whether an alert waits for the incident that explains it, which ``Explained`` brings."""
        return False

    def alerts(self, event: Event) -> Iterator[Alert]:
        """Yield the alerts that an event deserves.

        Raises
        ------
        redis.RedisError
            The broker is away; the event can be taken again, and no alert is lost.
        StoreError
            The store cannot be read.
        """
        raise NotImplementedError
