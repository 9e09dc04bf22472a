"""Streams of a recorded run in lockstep, agents and server included, in one process without a broker."""

from __future__ import annotations

from chimbuko.ad.analysis import StreamAnalysis
from chimbuko.ad.merging import AgentStatistics
from chimbuko.ad.stepview import StreamIdentity
from chimbuko.config import AnalysisConfig
from chimbuko.messages import ALL_EPOCHS
from chimbuko.packed import PackedRecords, unpack
from chimbuko.pserver.state import ServerState
from chimbuko.records import CallRecord, Label
from chimbuko.tables import PROFILE
from chimbuko.trace.discovery import StreamName
from chimbuko.trace.reader import StreamReader
from chimbuko.trace.schema import TraceStep


class LockstepStream:
    """One stream, one step ahead of its analysis."""

    def __init__(self, stream: StreamName, config: AnalysisConfig) -> None:
        self.key = f"0:{stream.rank}"
        self.analysis = StreamAnalysis(StreamIdentity(0, stream.rank, "node1"), config)
        self.records: dict[str, CallRecord] = {}
        self.rows = 0
        self.generation = 0
        self.epoch = -1
        self.reader = StreamReader(stream.path, "BPFile")
        self._period_us = config.period_us
        self._detector = config.detector
        self._fetch()

    @property
    def is_over(self) -> bool:
        return self.epoch == ALL_EPOCHS

    def advance_through(self, epoch: int) -> None:
        """Analyse all steps up to the end of an epoch."""
        while not self.is_over and self.epoch <= epoch:
            assert self._next is not None
            self._keep(self.analysis.analyse(self._next, self.reader.names).records)
            self._fetch()
        if self.is_over:
            self._keep(self.analysis.finish())

    def _fetch(self) -> None:
        got = self.reader.next_step(1.0)
        self._next = got if isinstance(got, TraceStep) else None
        if self._next is None:
            self.epoch = ALL_EPOCHS
            return
        self.rows += self._next.rows
        interval_us = self._next.interval_us()
        if interval_us is not None:
            self.epoch = max(self.epoch, interval_us[1] // self._period_us)

    def _keep(self, packed: PackedRecords) -> None:
        records = unpack(packed, self.analysis.health("reading"), self._detector)
        self.records |= {record.id: record for record in records}


class LockstepRun:
    """A whole run: streams dealt out among ``agents`` agents, which talk to one server."""

    def __init__(self, found: list[StreamName], agents: int, config: AnalysisConfig) -> None:
        self.streams = [LockstepStream(stream, config) for stream in found]
        self._agents = [AgentStatistics(f"agent{n}", 1, PROFILE) for n in range(agents)]
        self.server = ServerState(lockstep_streams=len(found))
        while not all(stream.is_over for stream in self.streams):
            epoch = min(stream.epoch for stream in self.streams)
            for stream in self.streams:
                stream.advance_through(epoch)
            self._close(epoch)

    def records(self) -> list[CallRecord]:
        """Last revision of each."""
        return [record for stream in self.streams for record in stream.records.values()]

    def anomalies(self) -> list[CallRecord]:
        return [record for record in self.records() if record.label is Label.ANOMALY]

    def _close(self, epoch: int) -> None:
        for number, agent in enumerate(self._agents):
            closed = {}
            for stream in self.streams[number :: len(self._agents)]:
                learned = stream.analysis.hand_out(stream.generation)
                agent.gather(0, stream.reader.names.timers, learned)
                closed[stream.key] = ALL_EPOCHS if stream.is_over else epoch
            delta = agent.next_delta(closed)
            assert delta is not None and self.server.apply(delta)
        update = self.server.model_update()
        assert update is not None and update.closed_epoch >= epoch
        for number, agent in enumerate(self._agents):
            agent.apply(update)
            for stream in self.streams[number :: len(self._agents)]:
                model = agent.model_for(0, stream.reader.names.timers)
                stream.analysis.take_model(model, stream.generation)
                stream.generation += 1
