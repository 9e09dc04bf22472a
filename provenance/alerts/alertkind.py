"""Base of all kinds of alert, and the gate for findings whose cost grows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator

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


class CostGate:
    """Costs that findings had when they passed last.

    ::

        BELOW ──costs least_us ─▶ passes──▶ PASSED ─┐ costs growth times as much ─▶ passes
                                              ▲─────┘

    Parameters
    ----------
    least_us
        Cost from which a finding passes.
    growth
        Factor by which the cost must have grown for the finding to pass again; by default it never does.
    """

    def __init__(self, least_us: float, growth: float = math.inf) -> None:
        self._least_us = least_us
        self._growth = growth
        self._passed_us: dict[Hashable, float] = {}

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        assert all(cost_us >= self._least_us for cost_us in self._passed_us.values()), "it cost too little"

    def know(self, finding: Hashable, cost_us: float) -> None:
        """Take a finding for passed whose cost was reported before."""
        if cost_us >= self._least_us:
            self._passed_us.setdefault(finding, cost_us)

    def has_passed(self, finding: Hashable) -> bool:
        """Whether the finding has passed before."""
        return finding in self._passed_us

    def passes(self, finding: Hashable, cost_us: float) -> bool:
        """Whether the finding passes now that it has this cost."""
        before_us = self._passed_us.get(finding)
        if cost_us < (self._least_us if before_us is None else self._growth * before_us):
            return False
        self._passed_us[finding] = cost_us
        return True
