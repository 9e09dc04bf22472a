"""Lockstep at its worst: what is sent is late, lost, doubled and out of order; server and broker die.

A run in one process like ``Cluster``, with the same streams, agents and server; but each takes its turn at
random, nobody knows of the others, and agents do what ``chimbuko.ad.modelsync`` does: they keep what is not
saved, and send it again. The flags have to be those of a single agent that nothing ever happens to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.modelsync.pendingdeltas import PendingDeltas
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import PackedTable
from chimbuko.pserver.state.modelversions import Published
from chimbuko.pserver.state.savedstate import SavedState
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import ALL_EPOCHS, Acknowledgement, Delta, FunctionName, ModelUpdate
from evaluation.cluster import Cluster, ClusterAgent, Source

LOST = 0.1
DOUBLED = 0.1
SENT_AGAIN = 0.2
"""Chance that an agent that waits sends again, in each of its turns; otherwise after some seconds."""
DEAF = 0.3
"""An agent does not hear what is new."""
SAVED = 0.2
SERVER_KILLED = 0.04
"""Chance of the server's death in each of its turns; another one goes on from what was saved."""
BROKER_KILLED = 0.02
"""Chance of the broker's death, with all that stood in it."""
MOST_TURNS = 1_000_000


@dataclass
class Broker:
    """What stands in it."""

    starts: int = 0
    deltas: list[Delta] = field(default_factory=list)
    """On their way."""
    read: list[Delta] = field(default_factory=list)
    """Deltas that the server has read since it last saved."""
    acknowledgements: dict[str, Acknowledgement] = field(default_factory=dict)
    updates: list[ModelUpdate] = field(default_factory=list)
    rows: dict[int, PackedTable] = field(default_factory=dict)
    names: list[FunctionName] = field(default_factory=list)

    def start_again(self) -> None:
        """With nothing in it."""
        for kept in (self.deltas, self.read, self.acknowledgements, self.updates, self.rows, self.names):
            kept.clear()
        self.starts += 1

    def publish(self, published: Published, is_whole: bool = False) -> None:
        """As the server does it, in one transaction."""
        if is_whole:
            self.rows.clear()
            self.names.clear()
        self.rows.update(published.rows)
        self.names += published.names
        self.updates.append(published.update)


@dataclass
class Events:
    """What happened, to see that it did."""

    lost: int = 0
    doubled: int = 0
    refused: int = 0
    """Deltas that the server did not merge: it had, or one before was missing."""
    servers_killed: int = 0
    brokers_killed: int = 0


class WaryAgent:
    """An agent that trusts nobody."""

    def __init__(self, agent: ClusterAgent, broker: Broker, random: np.random.Generator) -> None:
        self.agent = agent
        self._broker = broker
        self._random = random
        self._unsaved = PendingDeltas()
        self._seen_starts = 0
        self._read_to = 0
        self._sent_epoch = -1

    @property
    def is_settled(self) -> bool:
        """All streams are over, and the server has all that they learned."""
        return all(stream.is_over for stream in self.agent.streams) and not (
            self._unsaved.is_waiting or self._closes_more
        )

    def take_turn(self) -> None:
        """Hear what is new; go on where that is allowed; say what was learned."""
        must_send_all = self._seen_starts < self._broker.starts
        if must_send_all:
            self._seen_starts, self._read_to = self._broker.starts, 0
        if self._random.random() >= DEAF:
            must_send_all |= self._hear()
        for stream in self.agent.streams:
            if not stream.is_over and stream.epoch <= self.agent.statistics.model.closed_epoch + 1:
                stream.take()
                stream.advance_through(stream.epoch, is_exchanging=False)
                stream.leave()
        if must_send_all or (self._unsaved.is_waiting and self._random.random() < SENT_AGAIN):
            self._broker.deltas += self._unsaved.all()
        elif not self._unsaved.is_waiting and self._closes_more:
            delta = self.agent.next_delta(self._closed)
            assert delta is not None
            self._sent_epoch = min(self._closed.values())
            self._broker.deltas.append(self._unsaved.add(delta))

    @property
    def _closed(self) -> dict[str, int]:
        return {s.key: ALL_EPOCHS if s.is_over else s.epoch - 1 for s in self.agent.streams}

    @property
    def _closes_more(self) -> bool:
        return min(self._closed.values()) > self._sent_epoch

    def _hear(self) -> bool:
        """Whether the server has lost something."""
        statistics, broker = self.agent.statistics, self._broker
        acknowledgement = broker.acknowledgements.get(statistics.agent)
        has_lost = acknowledgement is not None and not self._unsaved.acknowledge(acknowledgement)
        # A stream keeps its order, and who reads knows where it is: updates come late, and nothing else.
        updates, self._read_to = broker.updates[self._read_to :], len(broker.updates)
        for update in updates:
            known = (
                0 if statistics.model.is_of_another_server(0, update) else statistics.model.known_functions(0)
            )
            if update.functions > known or statistics.model.is_of_another_server(0, update):
                statistics.model.learn_functions(0, update.server, broker.names[known:])
        wanted = statistics.model.wanted(0, updates)
        closed_epoch = statistics.model.closed_epoch
        statistics.model.apply(0, updates, {number: broker.rows.get(number) for number in wanted})
        if statistics.model.closed_epoch > closed_epoch:
            self._give_models()
        return has_lost

    def _give_models(self) -> None:
        _, merged = self._unsaved.merged
        for stream in self.agent.streams:
            carried = self.agent.generations.get(stream.key, [])
            contained = [generation for sequence, generation in carried if sequence <= merged]
            model = self.agent.statistics.model.rows_for(stream.source.program, stream.source.names.timers)
            stream.inbox = model, max(contained, default=-1), self.agent.statistics.model.version


class TroubledCluster(Cluster):
    """Streams in lockstep, dealt out among agents, over such a broker; analysed on construction."""

    def __init__(self, sources: list[Source], agents: int, config: AnalysisConfig, seed: int) -> None:
        self.events = Events()
        self._random = np.random.default_rng(seed)
        self._broker = Broker()
        self._saved = b""
        self._schema = make_detector(config).schema
        super().__init__(sources, agents, config)

    def _run_in_lockstep(self) -> None:
        agents = [WaryAgent(agent, self._broker, self._random) for agent in self.agents]
        for _ in range(MOST_TURNS):
            if all(agent.is_settled for agent in agents):
                return
            turn = int(self._random.integers(0, len(agents) + 1))
            if turn < len(agents):
                agents[turn].take_turn()
            else:
                self._serve()
        raise RuntimeError("the run does not come to an end")

    def _serve(self) -> None:
        """Merge some of the deltas that are on their way, in any order."""
        deltas = self._broker.deltas
        for _ in range(int(self._random.integers(0, len(deltas) + 1))):
            at = int(self._random.integers(0, len(deltas)))
            fate = self._random.random()
            if fate < LOST:
                del deltas[at]
                self.events.lost += 1
                continue
            is_doubled = fate >= 1.0 - DOUBLED
            self.events.doubled += is_doubled
            self._merge(deltas[at] if is_doubled else deltas.pop(at))
        fate = self._random.random()
        if fate < SAVED:
            self._saved = msgspec.msgpack.encode(self.server.save())
            self._broker.read.clear()
            self.server.is_saved()
            self._acknowledge()
        elif fate >= 1.0 - BROKER_KILLED:
            self.events.brokers_killed += 1
            self._broker.start_again()
            self._report_all()
        elif fate >= 1.0 - BROKER_KILLED - SERVER_KILLED:
            self._replace_server()

    def _merge(self, delta: Delta) -> None:
        self._broker.read.append(delta)
        self.events.refused += not self.server.apply(delta)
        published = self.server.publish(0.0)
        self._acknowledge()
        if published is not None:
            self._broker.publish(published)

    def _replace_server(self) -> None:
        self.events.servers_killed += 1
        self.server = ServerState(len(self.streams), self._schema, server=self.events.servers_killed)
        if self._saved:
            self.server.restore(msgspec.msgpack.decode(self._saved, type=SavedState))
        self._report_all()
        again, self._broker.read = self._broker.read, []
        for delta in again:
            self._merge(delta)

    def _report_all(self) -> None:
        whole = self.server.whole()
        self._acknowledge()
        self._broker.publish(whole, is_whole=True)

    def _acknowledge(self) -> None:
        self._broker.acknowledgements.update(self.server.acknowledgements())
