"""Schedule of the copies of a store: when one is due, and for whom."""

from __future__ import annotations

from chimbuko.provenance.service.steps import Asked, Copied
from chimbuko.provenance.write.pace import Pace

PERIOD_S = 30.0
SHARE = 0.01
"""Share of the time that copying may take."""
MOST_SHARE = 0.1
"""Share of the time that copying may take where somebody waits for a copy."""


class CopySchedule:
    """Schedule of copies: one now and then, sooner for a request, and once where the node may be gone."""

    def __init__(self, now_s: float) -> None:
        self._usual = Pace(PERIOD_S, SHARE, now_s + PERIOD_S)
        self._wanted = Pace(0.0, MOST_SHARE, now_s)
        self._served: bytes | None = None
        """Last request for which there is a copy."""
        self._has_hastened = False

    def is_due(self, asked: Asked) -> bool:
        """Return whether a copy is due now."""
        is_urgent = asked.is_leaving and not self._has_hastened
        is_wanted = is_urgent or (asked.request is not None and asked.request != self._served)
        return (self._wanted if is_wanted else self._usual).is_due(asked.time_s)

    def copied(self, event: Copied) -> None:
        """Note that a copy was made, or tried."""
        took_s = event.time_s - event.asked.time_s
        self._usual.rest(event.time_s, took_s)
        self._wanted.rest(event.time_s, took_s)
        if event.is_made:
            self._served = event.asked.request
            self._has_hastened = event.asked.is_leaving
