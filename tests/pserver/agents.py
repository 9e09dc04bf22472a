"""Agents as the server sees them, and what they know of it, without a broker between them."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, StreamShare
from chimbuko.core.arrays import Float64Array, Rows
from chimbuko.core.calls.pathtable import PATH
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.statistics.schema import PROFILE, PackedTable, TableSchema
from chimbuko.pserver.state.modelversions import Published
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import Delta, FunctionName

NO_PATHS: Rows = np.empty(0, PATH)


class Broker:
    """What stands in the broker of the model, as versions are published."""

    def __init__(self) -> None:
        self.names: list[FunctionName] = []
        self.rows: dict[int, PackedTable] = {}
        self._now_s = 0.0

    def take(self, published: Published) -> Published:
        """Put a version into it."""
        self.names = self.names[: published.update.functions - len(published.names)] + published.names
        self.rows |= dict(published.rows)
        return published

    def publish(self, server: ServerState, now_s: float | None = None) -> Published | None:
        """Whatever the server has to tell, a second after the last time unless told when."""
        self._now_s = self._now_s + 1.0 if now_s is None else now_s
        published = server.publish(self._now_s)
        return None if published is None else self.take(published)

    def table(self, schema: TableSchema) -> dict[str, Float64Array]:
        """Name of each function to its row."""
        return {self.names[number].name: schema.unpack(row)[0] for number, row in self.rows.items()}


class Agent:
    """An agent with one stream per rank, and what it has learned so far."""

    def __init__(self, name: str, incarnation: int = 1, schema: TableSchema = PROFILE) -> None:
        self.statistics = AgentStatistics(name, incarnation, schema)
        self._parts: list[StreamShare] = []

    def learn(
        self, program: int, timers: dict[int, str], learned: Learned, rank: int = 0, paths: Rows = NO_PATHS
    ) -> None:
        """What one of its streams has learned."""
        self._parts.append(StreamShare(program, rank, timers, learned, paths=paths))

    def count(self, steps: list[StepCount], health: StreamHealth) -> None:
        """Steps that one of its streams has analysed."""
        nothing = Learned(np.empty(0, np.int64), np.empty((0, self.statistics.schema.width)))
        self._parts.append(StreamShare(health.program, health.rank, {}, nothing, steps))
        self.statistics.note_health(health)

    def next_delta(self, closed: dict[str, int] | None = None) -> Delta | None:
        """Everything since the last one."""
        outgoing = self.statistics.next_round(self._parts, closed or {})
        self._parts = []
        return None if outgoing is None else outgoing.deltas[0]

    def delta(self, closed: dict[str, int] | None = None) -> Delta:
        """The next delta, which there has to be."""
        delta = self.next_delta(closed)
        assert delta is not None
        return delta

    def take(self, published: Published, broker: Broker) -> list[int]:
        """Take over a version; returns whose rows it fetched."""
        if self.statistics.model.is_of_another_server(0, published.update):
            self.statistics.model.learn_functions(0, published.update.server, broker.names)
        else:
            new = broker.names[self.statistics.model.known_functions(0) :]
            self.statistics.model.learn_functions(0, published.update.server, new)
        wanted = self.statistics.model.wanted(0, [published.update])
        self.statistics.model.apply(
            0, [published.update], {number: broker.rows.get(number) for number in wanted}
        )
        return wanted
