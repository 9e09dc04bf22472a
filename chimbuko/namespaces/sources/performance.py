"""What functions take on each rank of a run, from the parameter server into the namespace ``performance``."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import cast

import msgspec
import redis

from chimbuko.errors import ChimbukoError
from chimbuko.namespaces.client.client import Client, Namespace
from chimbuko.namespaces.exchange.reader import Observation
from chimbuko.namespaces.sources.taulayout import TauLayout
from chimbuko.protocol.runbroker import RunBroker
from chimbuko.protocol.telemetry import RankTimers

NAMESPACE = "performance"
PERIOD_S = 2.0
LEAVES_PER_S = 5000
"""More are published less often."""
CLOSE_TIMEOUT_S = 10.0

_decoder = msgspec.msgpack.Decoder(RankTimers)


class PerformancePublisher:
    """Asks the parts of the server now and then, and publishes what they answer.

    What they answer are totals: nothing counts twice, whoever of those concerned has died in between.

    Parameters
    ----------
    broker
        Of the run.
    parts
        Of the parameter server.
    open_client
        Connects to the service of namespaces; raises ``ChimbukoError`` where that is not possible now.
    report
        Takes a line: once, where what is published is refused.
    """

    def __init__(
        self,
        broker: RunBroker,
        parts: int,
        open_client: Callable[[], Client],
        report: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._parts = [broker.keys.part(part) for part in range(parts)]
        self._open_client = open_client
        self._report = report
        self._layout = TauLayout()
        self._answers: list[bytes] = []
        self._client: Client | None = None
        self._arrival: Future[None] | None = None
        self._due_s = 0.0
        self._has_ended = False

    def note(self, observation: Observation) -> None:
        """What was published before, perhaps by another process in the place of this one."""
        if observation.namespace == NAMESPACE:
            for path in observation.change.put:
                self._layout.note(path)

    def keep_up(self) -> None:
        """Publish what is new, and ask again, where that is due; a broker that is away is tried again."""
        if self._has_ended or time.monotonic() < self._due_s or not self._has_arrived():
            return
        self._due_s = time.monotonic() + PERIOD_S
        self._publish_answers()
        with suppress(redis.RedisError):
            for part in self._parts:
                self._broker.client.set(part.timers_wanted, b"1")

    def finish(self) -> None:
        """Publish the server's last word, and wait until it has arrived."""
        if not self._has_ended:
            self._publish_answers()
        if self._client is not None and not self._has_ended:
            try:
                self._client.close(CLOSE_TIMEOUT_S)
            except ChimbukoError as error:
                self._give_up(error)
        self._has_ended = True

    def _has_arrived(self) -> bool:
        """Whether nothing is on its way."""
        if self._arrival is None:
            return True
        if not self._arrival.done():
            return False
        error = self._arrival.exception()
        if error is not None:
            self._give_up(error)
        return error is None

    def _publish_answers(self) -> None:
        try:
            answers = [cast("bytes | None", self._broker.client.get(part.timers)) for part in self._parts]
            known = [answer for answer in answers if answer is not None]
            if known == self._answers:
                return
            timers = [self._broker.seal.decode(answer, _decoder) for answer in known]
        except (redis.RedisError, msgspec.MsgspecError):
            return
        if self._client is None:
            try:
                self._client = self._open_client()
            except ChimbukoError:
                # Who reads there says so.
                return
        try:
            self._publish(self._client.create(NAMESPACE), timers)
            self._answers = known
        except ChimbukoError as error:
            self._give_up(error)

    def _publish(self, namespace: Namespace, timers: list[RankTimers]) -> None:
        count = 0
        for path, value in self._layout.leaves(timers):
            namespace.update(path, value)
            count += 1
        self._arrival = namespace.publish_async()
        self._due_s = time.monotonic() + max(PERIOD_S, count / LEAVES_PER_S)

    def _give_up(self, error: BaseException) -> None:
        self._report(f"what functions take on each rank is not published: {error}")
        self._has_ended = True
