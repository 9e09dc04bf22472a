"""Findings in published quantities, published at the run's broker."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import cast

import msgspec
import redis

from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Findings
from chimbuko.runtime.protocol.runbroker import RunBroker

AGAIN_S = 2.0
"""Interval after which unchanged findings are published again: a broker may have lost them."""
MOST_FINDINGS = 500
"""Most findings of a run; more are counted only."""

_decoder = msgspec.msgpack.Decoder(Findings)


class FindingsBoard:
    """Publisher of all findings, for the store's writer."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._found: list[Finding] = []
        self._left_out = 0
        self._publish_at_s = 0.0

    def add(self, found: Finding) -> bool:
        """Add a finding, and return False where there are too many."""
        if len(self._found) == MOST_FINDINGS:
            self._left_out += 1
            return False
        self._found.append(found)
        self._publish_at_s = 0.0
        return True

    @property
    def left_out(self) -> int:
        """Number of findings for which there was no room."""
        return self._left_out

    def keep_up(self) -> None:
        """Publish if that is due; a broker that is away is tried again."""
        if self._found and time.monotonic() >= self._publish_at_s:
            sealed = self._broker.seal.encode(Findings(tuple(self._found)))
            with suppress(redis.RedisError):
                self._broker.client.set(self._broker.keys.metric_findings, sealed)
                self._publish_at_s = time.monotonic() + AGAIN_S


def published(broker: RunBroker, before: bytes) -> tuple[bytes, tuple[Finding, ...]]:
    """Return the findings at the broker, encoded and decoded; none if they are the same as ``before``.

    Raises ``redis.RedisError``, and ``msgspec.MsgspecError`` where it is not understood.
    """
    sealed = cast("bytes | None", broker.client.get(broker.keys.metric_findings)) or b""
    if sealed in (b"", before):
        return before, ()
    return sealed, broker.seal.decode(sealed, _decoder).found
