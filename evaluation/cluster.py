"""A whole run in one process, without a broker: streams, agents, server. In lockstep, or as if live."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, StreamShare
from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.recordarrays import PackedRecords, unpack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.model import Model
from chimbuko.core.statistics.schema import FLAGS, PackedTable
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.pserver.state.modelversions import Published
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import ALL_EPOCHS, Delta

LATEST_EPOCHS = 1
"""As if live: how far a stream, a delta and a model may each lag behind, in epochs; together three."""


@dataclass(frozen=True)
class Source:
    """Where the steps of one stream come from."""

    program: int
    rank: int
    names: StreamNames
    """Names of all steps given so far."""
    steps: Iterator[TraceStep]


class ClusterStream:
    """One stream, one step ahead of its analysis."""

    def __init__(self, source: Source, config: AnalysisConfig) -> None:
        schema = make_detector(config).schema
        self.source = source
        self.key = f"{source.program}:{source.rank}"
        self.analysis = StreamAnalysis(StreamIdentity(source.program, source.rank, "node"), config)
        self.records: list[PackedRecords] = []
        self.rows = 0
        self.epoch = -1
        """Of the next step."""
        self.generation = 0
        self.outbox = Learned(np.empty(0, np.int64), schema.empty(0))
        self.inbox: tuple[Float64Array, int, int] | None = None
        self._config = config
        self._schema = schema
        self._next: TraceStep | None = None
        self._fetch()

    @property
    def is_over(self) -> bool:
        """All steps are analysed."""
        return self.epoch == ALL_EPOCHS

    def advance_through(self, epoch: int, is_exchanging: bool) -> None:
        """Analyse all steps up to the end of an epoch.

        ``is_exchanging``: after each step leave what was learned, and take a newer model.
        """
        while self._next is not None and self.epoch <= epoch:
            self.records.append(self.analysis.analyse(self._next, self.source.names).records)
            if is_exchanging:
                self.leave()
                self.take()
            self._fetch()

    def leave(self) -> None:
        """Add what was learned to the outbox."""
        learned = self.analysis.hand_out(self.generation).learned
        timers = np.union1d(self.outbox.timers, learned.timers)
        table = self._schema.empty(len(timers))
        for one in (self.outbox, learned):
            self._schema.merge(table, np.searchsorted(timers, one.timers), one.table)
        self.outbox = Learned(timers, table)

    def part(self) -> StreamShare:
        """What stands in the outbox."""
        return StreamShare(self.source.program, self.source.rank, self.source.names.timers, self.outbox)

    def remove(self, is_taken: npt.NDArray[np.bool_]) -> None:
        """These rows of the outbox are on their way, and all flagged calls."""
        table = self.outbox.table[~is_taken]
        flags = [self._schema.slices[name].start for name in FLAGS]
        table[:, flags] = self._schema.empty(1)[:, flags]
        self.outbox = Learned(self.outbox.timers[~is_taken], table)
        self.generation += 1

    def take(self) -> None:
        """Judge by the model in the inbox."""
        if self.inbox is not None:
            self.analysis.take_model(*self.inbox)
            self.inbox = None

    def flagged_places(self) -> npt.NDArray[np.int64]:
        """Step and row of the ENTRY of each flagged call, i8[n, 2]."""
        heads = np.concatenate([records.head_rows() for records in self.records])
        flagged = heads[heads["is_anomaly"] == 1]
        places = np.stack([flagged["begin_step"], flagged["begin_row"]], axis=1)
        return np.unique(places.astype(np.int64), axis=0)

    def last_revisions(self) -> list[CallRecord]:
        """Each record as it is at last."""
        health = self.analysis.health("ended")
        unpacked = (unpack(records, health, self._config.detector) for records in self.records)
        return list({record.id: record for records in unpacked for record in records}.values())

    def _fetch(self) -> None:
        self._next = next(self.source.steps, None)
        if self._next is None:
            self.epoch = ALL_EPOCHS
            self.records.append(self.analysis.finish())
            return
        self.rows += self._next.rows
        interval_us = self._next.interval_us()
        if interval_us is not None:
            self.epoch = max(self.epoch, interval_us[1] // self._config.period_us)


@dataclass(frozen=True)
class LateModel:
    """A version of the model on its way to an agent."""

    due: int
    published: Published | None
    rows: dict[int, PackedTable]
    merged: list[int]
    """Last delta of each agent that is in it."""


@dataclass
class ClusterAgent:
    """One agent and its streams."""

    streams: list[ClusterStream]
    statistics: AgentStatistics
    generations: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Per stream (delta sequence, generation of the outbox that it carried)."""

    def next_delta(self, closed: dict[str, int], has_all: bool = True) -> Delta | None:
        """What the streams have left since the last one; see ``AgentStatistics.next_delta``."""
        parts = [stream.part() for stream in self.streams]
        for part in parts:
            self.statistics.name(part.program, part.timers.values())
        outgoing = self.statistics.next_round(parts, closed, has_all)
        if outgoing is None:
            return None
        for stream, is_taken in zip(self.streams, outgoing.taken, strict=True):
            carried = self.generations.setdefault(stream.key, [])
            carried.append((outgoing.deltas[0].sequence, stream.generation))
            stream.remove(is_taken)
        return outgoing.deltas[0]

    def apply(self, published: Published | None, rows: Mapping[int, PackedTable], merged: int) -> None:
        """Hand the model, with this agent's deltas up to ``merged``, to the streams.

        ``rows``: what stood in the broker with this version.
        """
        updates = [] if published is None else [published.update]
        if published is not None:
            self.statistics.model.learn_functions(0, published.update.server, published.names)
        wanted = self.statistics.model.wanted(0, updates)
        self.statistics.model.apply(0, updates, {number: rows.get(number) for number in wanted})
        for stream in self.streams:
            contained = [g for sequence, g in self.generations.get(stream.key, []) if sequence <= merged]
            model = self.statistics.model.rows_for(stream.source.program, stream.source.names.timers)
            stream.inbox = model, max(contained, default=-1), self.statistics.model.version


class Cluster:
    """Streams dealt out among at most ``agents`` agents, which talk to one server; analysed on construction.

    Parameters
    ----------
    live_seed
        Where given, nobody waits for anybody: what one stream knows of the others is up to three epochs
        late, at random. Otherwise lockstep.
    base
        What the run begins with. Programs are named by their numbers.
    """

    def __init__(
        self,
        sources: list[Source],
        agents: int,
        config: AnalysisConfig,
        live_seed: int | None = None,
        base: Model | None = None,
    ) -> None:
        schema = make_detector(config).schema
        self.streams = [ClusterStream(source, config) for source in sources]
        self.agents = [
            ClusterAgent(self.streams[number::agents], AgentStatistics(str(number), 1, schema))
            for number in range(min(agents, len(sources)))
        ]
        self._rows: dict[int, PackedTable] = {}
        """Of the model, as in the broker."""
        self.server = ServerState(0 if live_seed is not None else len(sources), schema, base)
        self.server.name_programs({source.program: str(source.program) for source in sources})
        if live_seed is None:
            self._run_in_lockstep()
        else:
            self._run_live(np.random.default_rng(live_seed))

    def records(self) -> list[CallRecord]:
        """Each as it is at last."""
        return [record for stream in self.streams for record in stream.last_revisions()]

    def anomalies(self) -> list[CallRecord]:
        """All flagged calls."""
        return [record for record in self.records() if record.label is Label.ANOMALY]

    def _is_over(self) -> bool:
        return all(stream.is_over for stream in self.streams)

    def _run_in_lockstep(self) -> None:
        while not self._is_over():
            epoch = min(stream.epoch for stream in self.streams)
            for stream in self.streams:
                stream.advance_through(epoch, is_exchanging=False)
                stream.leave()
            for agent in self.agents:
                closed = {s.key: ALL_EPOCHS if s.is_over else epoch for s in agent.streams}
                delta = agent.next_delta(closed)
                assert delta is not None and self.server.apply(delta)
            published = self.server.publish(0.0)
            assert published is not None and published.update.closed_epoch >= epoch
            self._rows.update(published.rows)
            for agent in self.agents:
                agent.apply(published, self._rows, agent.statistics.round)
            for stream in self.streams:
                stream.take()

    def _run_live(self, random: np.random.Generator) -> None:
        clock = min(stream.epoch for stream in self.streams)
        deltas: list[tuple[int, Delta]] = []
        models: list[list[LateModel]] = [[] for _ in self.agents]
        waiting = [0] * len(self.agents)
        """Sequence of the delta that each agent has on its way."""
        merged = [0] * len(self.agents)
        """Last delta of each agent in the model that it has."""
        contained = [0] * len(self.agents)
        """Last delta of each agent in the model of the server."""
        while not self._is_over():
            for number in random.permutation(len(self.streams)):
                lag = int(random.integers(0, LATEST_EPOCHS + 1))
                self.streams[number].advance_through(clock - lag, is_exchanging=True)
            for number, agent in enumerate(self.agents):
                while models[number] and models[number][0].due <= clock:
                    late = models[number].pop(0)
                    agent.apply(late.published, late.rows, late.merged[number])
                    merged[number] = late.merged[number]
                if merged[number] >= waiting[number]:
                    delta = agent.next_delta({}, has_all=False)
                    if delta is not None:
                        waiting[number] = delta.sequence
                        deltas.append((clock + int(random.integers(0, LATEST_EPOCHS + 1)), delta))
            for due, delta in deltas:
                if due <= clock and self.server.apply(delta):
                    contained[int(delta.agent)] = delta.sequence
            deltas = [(due, delta) for due, delta in deltas if due > clock]
            published = self.server.publish(float(clock))
            self._rows.update(published.rows if published is not None else [])
            for queue in models:
                due = clock + int(random.integers(0, LATEST_EPOCHS + 1))
                queue.append(LateModel(due, published, dict(self._rows), list(contained)))
            clock += 1


MakeCluster = Callable[[list[Source], int, AnalysisConfig], Cluster]
"""From streams, the number of agents and a configuration."""
