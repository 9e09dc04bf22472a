"""What keeps the writer from storing: said once, in its log and to the services, and tried again."""

from __future__ import annotations

import time
from contextlib import suppress

import redis

from chimbuko.core.errors import ChimbukoError
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.runbroker import RunBroker

FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
STOP_GRACE_S = 10.0
"""How long to go on trying, once asked to stop, while broker or store cannot be used."""


class WriterStatus:
    """Says once that something does not work, and waits longer each time."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._retry_s = FIRST_RETRY_S
        self._said: type[ChimbukoError] | None = None
        self._since_s = 0.0
        self._stopping_since: float | None = None

    def wait(self, error: ChimbukoError, is_stopping: bool) -> None:
        """Wait before the next try; raise ``error`` where there is no more time for one."""
        if is_stopping:
            self._stopping_since = self._stopping_since or time.monotonic()
            if time.monotonic() - self._stopping_since > STOP_GRACE_S:
                raise error
        if self._said is None:
            self._since_s = time.monotonic()
        if self._said is not type(error):
            self.report(f"{error}; records wait until it works again")
            self._said = type(error)
        time.sleep(self._retry_s)
        self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)

    def are_over(self) -> None:
        """All works."""
        if self._said is not None:
            self.report(f"records are stored again, after {time.monotonic() - self._since_s:.1f} s")
        self._said = None
        self._retry_s = FIRST_RETRY_S

    def report(self, line: str) -> None:
        """Into the log, and to the services: their user shall see it, too."""
        log(line)
        with suppress(redis.RedisError):
            self._broker.notify_user(line)
