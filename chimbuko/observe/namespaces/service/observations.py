"""What is published in all namespaces from the beginning of a run on, whoever serves it, and whenever."""

from __future__ import annotations

import time
from collections.abc import Callable

from chimbuko.core.errors import ChimbukoError
from chimbuko.observe.namespaces.exchange.namespacereader import (
    MOST_AT_ONCE,
    Observation,
    Reader,
    Subscription,
)

TRY_AGAIN_S = 2.0


class LateObservations:
    """Observations of a service that may not be there yet.

    Parameters
    ----------
    open_reader
        Connects to the service; raises ``ChimbukoError`` where that is not possible now.
    since_us
        What was published before, in µs since the epoch, is of no concern.
    report
        Takes a line: once that the service cannot be used yet, and once that it can.
    """

    def __init__(
        self,
        open_reader: Callable[[], Reader],
        since_us: int,
        report: Callable[[str], None],
    ) -> None:
        self._open_reader = open_reader
        self._since_us = since_us
        self._report = report
        self._subscriptions: list[Subscription] = []
        self._try_at_s = 0.0
        self._is_missing = False
        self.has_caught_up = False
        """Whether all that was published before is known."""

    def new(self) -> list[Observation]:
        """What has come since the last time."""
        if not self._subscriptions:
            self._subscriptions = self._open()
        found = [one for subscription in self._subscriptions for one in subscription.new()]
        self.has_caught_up = bool(self._subscriptions) and len(found) < MOST_AT_ONCE
        return [one for one in found if one.time_us >= self._since_us]

    def _open(self) -> list[Subscription]:
        if time.monotonic() < self._try_at_s:
            return []
        try:
            # The connection lasts as long as the process.
            reader = self._open_reader()
            subscriptions = [reader.subscription(name, has_past=True) for name in reader.namespaces]
        except ChimbukoError as error:
            self._try_at_s = time.monotonic() + TRY_AGAIN_S
            if not self._is_missing:
                self._report(f"what programs publish is not watched yet: {error}")
            self._is_missing = True
            return []
        if self._is_missing:
            self._report("what programs publish is watched from now on")
        return subscriptions
