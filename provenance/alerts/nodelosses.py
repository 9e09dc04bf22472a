"""What is sent of what a node took from ranks, whatever calls they were in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from chimbuko.causes.incident import Incident


class LossAlert(msgspec.Struct, frozen=True, tag_field="kind", tag="loss"):
    """What is sent of an incident whose origin is no call; each is worth one alert."""

    run: str
    """Its id."""
    incident: str
    """Its id in the run."""
    cause: str
    """``stopped`` or ``waited for core``."""
    node: str
    program: int
    ranks: list[int]
    """That were kept from running."""
    begin_us: int
    """When it began, in µs since the epoch."""
    cost_us: float
    """Core time lost so far, on all ranks."""
    sentence: str
    """What happened, in words."""
    dashboard: str
    """Address of its page, without the token; empty where there is no dashboard."""


class LossGate:
    """Lets such an incident pass once, when it has cost enough.

    Parameters
    ----------
    least_us
        Cost from which on one is worth an alert.
    """

    def __init__(self, least_us: float) -> None:
        self._least_us = least_us
        self._passed: set[int] = set()

    def know(self, stored: Iterable[Incident]) -> None:
        """What was stored before, and so was reported by whoever stored it."""
        self._passed.update(one.number for one in stored if one.cost_us >= self._least_us)

    def passing(self, incidents: Iterable[Incident]) -> Iterator[Incident]:
        """Those that pass now."""
        for one in incidents:
            if one.cost_us >= self._least_us and one.number not in self._passed:
                self._passed.add(one.number)
                yield one
