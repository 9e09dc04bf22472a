"""Drives simulated agents over connections of their own.

Some times per period an agent asks for its acknowledgement and for updates of the model, and fetches the
rows that it uses; once per period it then sends its next delta, if the last one is merged. The moments are
fixed beforehand: one that the driver or the broker is late for is not put off. Agents join one after the
other, as a launcher starts them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from benchmarks.server.agents import RealAgent, SimulatedAgent
from benchmarks.server.links import Directory, FollowerLink, Link, RealLink
from benchmarks.server.services import KEYS, SEAL
from benchmarks.server.wire import Life, Requests, Wire, command
from chimbuko.ad.modelsync.modelsync import look_s
from chimbuko.runtime.protocol.messages import PAYLOAD, Acknowledgement

WATCH_S = 0.001
"""Time between two looks at the acknowledgements that are waited for."""
WATCHED_PER_S = 250
"""How many messages' delays are measured."""
START_S = 0.5
LAST_ROUND_S = 0.05
LAST_S = 60.0
"""How long the end may take."""

_acknowledgements = msgspec.msgpack.Decoder(Acknowledgement)


@dataclass
class Traffic:
    """What happened between the first period and the end of the last one."""

    messages: int = 0
    put_off: int = 0
    """Periods without a message, because the last one was not known to be merged."""
    delays_s: list[float] = field(default_factory=list)
    """From the sending of a message until it was merged."""
    waits_s: list[float] = field(default_factory=list)
    """From the moment a message was due: with what the driver took to look for a model and make it."""
    lags_s: list[float] = field(default_factory=list)
    """How late the driver itself was; part of the waits."""
    table_bytes: int = 0
    """Of deltas: statistics of functions."""
    telemetry_bytes: int = 0
    """Of deltas: what is for dashboards only."""
    row_bytes: int = 0
    """Rows of the model."""
    sent_bytes: int = 0
    received_bytes: int = 0


class Driver:
    """Leads the lives of all agents.

    Parameters
    ----------
    agents
        In the order in which they join.
    periods
        How long all of it lasts.
    period_s
        Time between two messages of an agent.
    join_periods
        How long it takes until all have joined.
    sample
        Called at the beginning of each ``sample_periods``-th period, and at the end.
    """

    def __init__(
        self,
        url: str,
        agents: Sequence[SimulatedAgent],
        periods: int,
        period_s: float,
        join_periods: int,
        sample: Callable[[], None],
        sample_periods: int,
    ) -> None:
        self.traffic = Traffic()
        self.not_merged = 0
        """Deltas of which the agents did not hear in the end that they are merged."""
        self._wire = Wire(url)
        self._periods = periods
        self._period_s = period_s
        self._join_periods = join_periods
        self._sample = sample
        self._sample_periods = sample_periods
        self._watched: dict[bytes, tuple[int, float, float]] = {}
        """Agent to the sequence of its last message, when that was due, and when it was sent."""
        directory = Directory()
        self._links: list[Link] = [
            RealLink(agent, directory) if isinstance(agent, RealAgent) else FollowerLink(agent, directory)
            for agent in agents
        ]
        self._living = len(self._links)
        self._start = 0.0

    @property
    def wire_bytes(self) -> int:
        """Sent and received so far."""
        return self._wire.sent_bytes + self._wire.received_bytes

    def run(self) -> None:
        """All periods; then what was held back."""
        agents = len(self._links)
        stride = max(1, round(agents / (WATCHED_PER_S * self._period_s)))
        for number, link in enumerate(self._links):
            joins = self._join_periods * number / agents
            self._wire.connect(self._life(link, joins, number % stride == 0))
        self._wire.connect(self._watch())
        self._wire.connect(self._observe())
        self._start = time.monotonic() + START_S
        self._wire.run()

    def _moment(self, period: float) -> float:
        return self._start + period * self._period_s

    def _observe(self) -> Life:
        """Take samples, and the totals at the end."""
        yield self._moment(0)
        before = self._wire.sent_bytes, self._wire.received_bytes
        for period in range(0, self._periods, self._sample_periods):
            yield self._moment(period)
            self._sample()
        yield self._moment(self._periods)
        self._sample()
        traffic = self.traffic
        traffic.sent_bytes = self._wire.sent_bytes - before[0]
        traffic.received_bytes = self._wire.received_bytes - before[1]
        traffic.row_bytes = sum(link.row_bytes for link in self._links)

    def _watch(self) -> Life:
        """Look at acknowledgements; agents themselves look only once per period."""
        while self._living:
            yield time.monotonic() + WATCH_S
            if not self._watched:
                continue
            names = list(self._watched)
            (answers,) = yield Requests(command(b"HMGET", KEYS.part(0).acks.encode(), *names))
            now = time.monotonic()
            for name, answer in zip(names, answers, strict=True):
                sequence, due, sent = self._watched[name]
                if answer is not None and _acknowledgements.decode(answer).merged >= sequence:
                    self.traffic.delays_s.append(now - sent)
                    self.traffic.waits_s.append(now - due)
                    del self._watched[name]

    def _life(self, link: Link, joins: float, is_watched: bool) -> Life:
        """One agent's; ``joins`` is a moment, in periods."""
        traffic = self.traffic
        looks = round(1.0 / look_s(1.0, len(self._links)))
        for look in range(looks * math.ceil(self._periods - joins)):
            turn, is_between = divmod(look, looks)
            due = self._moment(joins + look / looks)
            yield due
            traffic.lags_s.append(time.monotonic() - due)
            yield from link.receive()
            if is_between:
                continue
            delta = link.agent.next_delta(turn) if link.may_send else None
            if delta is None:
                traffic.put_off += 1
                continue
            if is_watched:
                self._watched[link.agent.name.encode()] = link.agent.sequence, due, time.monotonic()
            traffic.messages += 1
            traffic.table_bytes += delta.table_bytes
            traffic.telemetry_bytes += delta.telemetry_bytes
            yield _sending(delta.encoded)
        yield self._moment(self._periods + joins / max(self._join_periods, 1))
        yield from self._end(link)

    def _end(self, link: Link) -> Generator[float | Requests, list[Any], None]:
        """Send what was held back, and wait until all is merged."""
        deadline = time.monotonic() + LAST_S
        is_last_sent = False
        while time.monotonic() < deadline and not (is_last_sent and link.may_send):
            yield from link.receive()
            if link.may_send and not is_last_sent:
                delta = link.agent.last_delta()
                is_last_sent = True
                if delta is not None:
                    yield _sending(delta.encoded)
            yield time.monotonic() + LAST_ROUND_S
        self.not_merged += link.agent.sequence - link.merged
        self._living -= 1


def _sending(delta: bytes) -> Requests:
    return Requests(command(b"XADD", KEYS.part(0).deltas.encode(), b"*", PAYLOAD, SEAL.enclose(delta)))
