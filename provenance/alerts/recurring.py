"""Which findings of what recurs are worth an alert: each once, and again when it costs much more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from chimbuko.causes.recurrence import Recurrence
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary

MUCH_MORE = 10.0
"""Times the cost that an alert said, from which on there is another one."""


class FindingAlert(msgspec.Struct, frozen=True, tag_field="kind", tag="finding"):
    """What is sent of something that recurs."""

    run: str
    """Its id."""
    finding: str
    """Its id in the run."""
    habit: str
    """``slow mode``, ``drift``, ``interruptions`` or ``slow ranks``."""
    program: int
    function: str
    """Empty where it is not one alone."""
    calls: int
    """That are meant so far."""
    cost_us: float
    """Core time that they lost together."""
    is_growth: bool
    """There was an alert of it before, when it had cost a tenth or less."""
    sentence: str
    """What recurs, in words."""
    dashboard: str
    """Address of its page, without the token; empty where there is no dashboard."""


class FindingGate:
    """Lets a finding pass when it has cost enough, and again each time that it has cost ten times as much.

    Parameters
    ----------
    least_us
        Cost from which on one is worth an alert.
    """

    def __init__(self, least_us: float) -> None:
        self._least_us = least_us
        self._costs_us: dict[tuple[int, str, str, str], float] = {}
        """What those that passed had cost then, by ``Recurrence.key``."""

    def know(self, found: Iterable[Recurrence]) -> None:
        """What was stored before, and so was reported by whoever stored it."""
        for one in found:
            if one.cost_us >= self._least_us:
                self._costs_us.setdefault(one.key, one.cost_us)

    def passing(self, found: Iterable[RecurrenceSummary]) -> Iterator[tuple[RecurrenceSummary, bool]]:
        """Those that pass now, each with whether it has passed before."""
        for one in found:
            cost_us, key = one.recurrence.cost_us, one.recurrence.key
            before_us = self._costs_us.get(key)
            if cost_us >= (self._least_us if before_us is None else MUCH_MORE * before_us):
                self._costs_us[key] = cost_us
                yield one, before_us is not None
