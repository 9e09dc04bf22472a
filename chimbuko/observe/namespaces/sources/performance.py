"""What functions take on each rank of a run, from the parameter server into the namespace ``performance``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from itertools import islice
from typing import cast

import msgspec
import redis

from chimbuko.core.errors import ChimbukoError
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.sources.taulayout import TauLayout
from chimbuko.observe.namespaces.tree.paths import Path
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.protocol.telemetry import RankTimers

NAMESPACE = "performance"
PERIOD_S = 2.0
LEAVES_PER_S = 5000
"""More are published less often."""
PIECE = int(PERIOD_S * LEAVES_PER_S)
"""Leaves that are published at a time: those of 10,000 ranks are 41 MB, and take seconds to make."""
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
        self._leaves: Iterator[tuple[Path, float]] = iter(())
        """Those of the answers that are not published yet."""
        self._has_leaves = False
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
        """Publish a piece of what is new, and ask again where that was the last one, if it is due; a broker
        that is away is tried again.
        """
        if self._has_ended or time.monotonic() < self._due_s or not self._has_arrived():
            return
        self._due_s = time.monotonic() + PERIOD_S
        if not self._has_leaves:
            self._take_answers()
        if self._has_leaves:
            self._publish_piece()
        if not self._has_leaves:
            with suppress(redis.RedisError):
                for part in self._parts:
                    self._broker.client.set(part.timers_wanted, b"1")

    def finish(self) -> None:
        """Publish the server's last word, and wait until it has arrived."""
        if not self._has_ended:
            self._take_answers()
        while self._has_leaves and self._has_arrived(CLOSE_TIMEOUT_S) and self._publish_piece():
            pass
        if self._client is not None and not self._has_ended:
            try:
                self._client.close(CLOSE_TIMEOUT_S)
            except ChimbukoError as error:
                self._give_up(error)
        self._has_ended = True

    def _has_arrived(self, timeout_s: float = 0.0) -> bool:
        """Whether nothing is on its way any more, after so many seconds at most."""
        if self._arrival is None:
            return True
        if wait([self._arrival], timeout_s).not_done:
            return False
        error = self._arrival.exception()
        if error is not None:
            self._give_up(error)
        return error is None

    def _take_answers(self) -> None:
        """What the server has answered by now, where that is new."""
        try:
            answers = [cast("bytes | None", self._broker.client.get(part.timers)) for part in self._parts]
            known = [answer for answer in answers if answer is not None]
            if known == self._answers:
                return
            timers = [self._broker.seal.decode(answer, _decoder) for answer in known]
        except (redis.RedisError, msgspec.MsgspecError):
            return
        self._answers = known
        self._leaves, self._has_leaves = self._layout.leaves(timers), True

    def _publish_piece(self) -> bool:
        """Publish some of what is left, if it can be."""
        try:
            self._client = self._client or self._open_client()
        except ChimbukoError:
            # Who reads there says so.
            return False
        try:
            namespace = self._client.create(NAMESPACE)
            piece = list(islice(self._leaves, PIECE))
            for path, value in piece:
                namespace.update(path, value)
            self._arrival = namespace.publish_async()
        except ChimbukoError as error:
            self._give_up(error)
            return False
        self._has_leaves = len(piece) == PIECE
        return True

    def _give_up(self, error: BaseException) -> None:
        self._report(f"what functions take on each rank is not published: {error}")
        self._has_ended = True
