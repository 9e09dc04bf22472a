"""Report to the store on its way there: its writer removes it from the broker when it is written."""

from __future__ import annotations

from typing import cast

from chimbuko.runtime.protocol.messages import PAYLOAD, RunStatistics
from chimbuko.runtime.protocol.runbroker import RunBroker


class StoreReport:
    """Last report to the store, which may have to be sent again."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._payload = b""
        self._entry = b"0"
        """Id of the report in its Redis stream."""

    def make(self, statistics: RunStatistics) -> None:
        """Make it a new report."""
        self._payload = self._broker.seal.encode(statistics)

    def send(self) -> None:
        """Send it, if need be again."""
        entry = self._broker.client.xadd(self._broker.keys.statistics, {PAYLOAD: self._payload})
        self._entry = cast(bytes, entry)

    def is_taken(self) -> bool:
        """Return whether the store has taken it."""
        return not self._broker.client.xrange(self._broker.keys.statistics, self._entry, self._entry)
