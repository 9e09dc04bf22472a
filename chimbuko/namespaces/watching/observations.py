"""What is published in a namespace from the beginning of a run on, whoever serves it, and whenever."""

from __future__ import annotations

import time
from collections.abc import Callable

from chimbuko.errors import ChimbukoError
from chimbuko.namespaces.exchange.reader import Observation, Reader, Subscription

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
        namespace: str,
        since_us: int,
        report: Callable[[str], None],
    ) -> None:
        self._open_reader = open_reader
        self._namespace = namespace
        self._since_us = since_us
        self._report = report
        self._subscription: Subscription | None = None
        self._try_at_s = 0.0
        self._is_missing = False

    def new(self) -> list[Observation]:
        """What has come since the last time."""
        if self._subscription is None:
            self._subscription = self._open()
        found = self._subscription.new() if self._subscription is not None else []
        return [one for one in found if one.time_us >= self._since_us]

    def _open(self) -> Subscription | None:
        if time.monotonic() < self._try_at_s:
            return None
        try:
            # The connection lasts as long as the process.
            subscription = self._open_reader().subscription(self._namespace, has_past=True)
        except ChimbukoError as error:
            self._try_at_s = time.monotonic() + TRY_AGAIN_S
            if not self._is_missing:
                self._report(f"what programs publish is not watched yet: {error}")
            self._is_missing = True
            return None
        if self._is_missing:
            self._report("what programs publish is watched from now on")
        return subscription
