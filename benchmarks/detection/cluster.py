"""A whole run in one process, without a broker: streams, agents, server. In lockstep, or as if live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis import StreamAnalysis
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.identity import StreamIdentity
from chimbuko.ad.merging import AgentStatistics
from chimbuko.ad.statistics import Learned
from chimbuko.config import AnalysisConfig
from chimbuko.messages import ALL_EPOCHS, Delta, ModelUpdate
from chimbuko.moments import Float64Array
from chimbuko.packed import PackedRecords, unpack
from chimbuko.pserver.state import ServerState
from chimbuko.records import CallRecord, Label
from chimbuko.trace.schema import StreamNames, TraceStep

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
        self.source = source
        self.key = f"{source.program}:{source.rank}"
        self.analysis = StreamAnalysis(StreamIdentity(source.program, source.rank, "node"), config)
        self.records: list[PackedRecords] = []
        self.rows = 0
        self.epoch = -1
        """Of the next step."""
        self.generation = 0
        self.outbox: list[Learned] = []
        self.inbox: tuple[Float64Array, int, int] | None = None
        self._config = config
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
        """Put what was learned into the outbox."""
        self.outbox.append(self.analysis.hand_out(self.generation))

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


@dataclass
class ClusterAgent:
    """One agent and its streams."""

    streams: list[ClusterStream]
    statistics: AgentStatistics
    generations: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Per stream (delta sequence, generation of the outbox that it carried)."""

    def next_delta(self, closed: dict[str, int]) -> Delta | None:
        """What the streams have left since the last one."""
        for stream in self.streams:
            for learned in stream.outbox:
                self.statistics.gather(stream.source.program, stream.source.names.timers, learned)
            stream.outbox.clear()
            carried = self.generations.setdefault(stream.key, [])
            carried.append((self.statistics.next_sequence, stream.generation))
            stream.generation += 1
        return self.statistics.next_delta(closed)

    def apply(self, update: ModelUpdate) -> None:
        """Hand an update to the streams."""
        self.statistics.apply(update)
        merged = self.statistics.merged_sequence
        for stream in self.streams:
            contained = [g for sequence, g in self.generations.get(stream.key, []) if sequence <= merged]
            model = self.statistics.model_for(stream.source.program, stream.source.names.timers)
            stream.inbox = model, max(contained, default=-1), update.version


class Cluster:
    """Streams dealt out among at most ``agents`` agents, which talk to one server; analysed on construction.

    Parameters
    ----------
    live_seed
        Where given, nobody waits for anybody: what one stream knows of the others is up to three epochs
        late, at random. Otherwise lockstep.
    """

    def __init__(
        self, sources: list[Source], agents: int, config: AnalysisConfig, live_seed: int | None = None
    ) -> None:
        schema = make_detector(config).schema
        self.streams = [ClusterStream(source, config) for source in sources]
        self.agents = [
            ClusterAgent(self.streams[number::agents], AgentStatistics(f"agent{number}", 1, schema))
            for number in range(min(agents, len(sources)))
        ]
        self.server = ServerState(0 if live_seed is not None else len(sources), schema)
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
            update = self.server.model_update()
            assert update is not None and update.closed_epoch >= epoch
            for agent in self.agents:
                agent.apply(update)
            for stream in self.streams:
                stream.take()

    def _run_live(self, random: np.random.Generator) -> None:
        clock = min(stream.epoch for stream in self.streams)
        deltas: list[tuple[int, Delta]] = []
        updates: list[list[tuple[int, ModelUpdate]]] = [[] for _ in self.agents]
        waiting = [0] * len(self.agents)
        """Sequence of the delta that each agent has on its way."""
        while not self._is_over():
            for number in random.permutation(len(self.streams)):
                lag = int(random.integers(0, LATEST_EPOCHS + 1))
                self.streams[number].advance_through(clock - lag, is_exchanging=True)
            for number, agent in enumerate(self.agents):
                for due, update in list(updates[number]):
                    if due > clock:
                        break
                    agent.apply(update)
                    updates[number].pop(0)
                if agent.statistics.merged_sequence >= waiting[number]:
                    delta = agent.next_delta({})
                    if delta is not None:
                        waiting[number] = delta.sequence
                        deltas.append((clock + int(random.integers(0, LATEST_EPOCHS + 1)), delta))
            for _, delta in filter(lambda late: late[0] <= clock, deltas):
                self.server.apply(delta)
            deltas = [late for late in deltas if late[0] > clock]
            published = self.server.model_update()
            if published is not None:
                for queue in updates:
                    queue.append((clock + int(random.integers(0, LATEST_EPOCHS + 1)), published))
            clock += 1
