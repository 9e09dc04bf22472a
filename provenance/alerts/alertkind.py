"""Base of all kinds of alert."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.provenance.alerts.events import Event, Instruction


class AlertKind:
    """One kind of alert: which events of a run deserve one, and what it says. A state machine.

    Parameters
    ----------
    run
        Id of the run.
    least_us
        Severity or cost from which a finding is worth an alert.
    """

    def __init__(self, run: str, least_us: float) -> None:
        self.run = run
        self.least_us = least_us

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Take an event, and yield what is to be done."""
        raise NotImplementedError

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
