"""What was found, at the run's broker."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import cast

import msgspec
import redis

from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Findings
from chimbuko.runtime.protocol.runbroker import RunBroker

AGAIN_S = 2.0
"""From one publication to the next where nothing is new: a broker may have lost it."""
MOST_FINDINGS = 500
"""Of a run; more are counted only."""

_decoder = msgspec.msgpack.Decoder(Findings)


class FindingsBoard:
    """Publishes all that was found, for the store's writer."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._found: list[Finding] = []
        self._left_out = 0
        self._publish_at_s = 0.0

    def add(self, found: Finding) -> bool:
        """One thing more; False where there are too many."""
        if len(self._found) == MOST_FINDINGS:
            self._left_out += 1
            return False
        self._found.append(found)
        self._publish_at_s = 0.0
        return True

    @property
    def left_out(self) -> int:
        """Findings for which there was no room."""
        return self._left_out

    def keep_up(self) -> None:
        """Publish, where that is due; a broker that is away is tried again."""
        if self._found and time.monotonic() >= self._publish_at_s:
            sealed = self._broker.seal.encode(Findings(tuple(self._found)))
            with suppress(redis.RedisError):
                self._broker.client.set(self._broker.keys.metric_findings, sealed)
                self._publish_at_s = time.monotonic() + AGAIN_S


def published(broker: RunBroker, before: bytes) -> tuple[bytes, tuple[Finding, ...]]:
    """What stands at the broker, encoded, and the findings; none where it is the same as ``before``.

    Raises ``redis.RedisError``, and ``msgspec.MsgspecError`` where it is not understood.
    """
    sealed = cast("bytes | None", broker.client.get(broker.keys.metric_findings)) or b""
    if sealed in (b"", before):
        return before, ()
    return sealed, broker.seal.decode(sealed, _decoder).found
