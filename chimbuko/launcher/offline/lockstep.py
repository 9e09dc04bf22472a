"""Lockstep of recorded streams: which of them go on, and what all of them have learned together. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from chimbuko.ad.agent.overduecalls import OverdueSearch, breaks_off, is_long_open
from chimbuko.ad.analysis.streamanalysis import Findings, StreamIdentity
from chimbuko.ad.analysis.streamstatistics import Learned, merged_learned
from chimbuko.ad.analysis.streamtelemetry import MOST_ROWS, StreamTelemetry
from chimbuko.ad.handoff.opencalls import OpenCalls
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, StreamShare
from chimbuko.ad.streams.streamhandle import is_prompt
from chimbuko.core.arrays import as_table
from chimbuko.core.calls.pathtable import PATH, forget_calls
from chimbuko.core.calls.record import READING, StepCount, StreamHealth
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.kernels.paths import add_to_copy
from chimbuko.core.statistics.schema import TableSchema
from chimbuko.core.traceschema import StreamNames
from chimbuko.launcher.offline.lockstepstream import EpochClosed, StreamModel
from chimbuko.runtime.protocol.messages import ALL_EPOCHS, NO_EPOCH, Delta, RecordBatch


class Unsent:
    """Findings of one stream that add up until they are sent: the outbox of a stream in its own process."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._learned = Learned(np.empty(0, np.int64), schema.empty(0))
        self._steps: list[StepCount] = []
        self._telemetry = StreamTelemetry.none()
        self._paths = as_table(np.empty(0, PATH))

    def add(self, findings: Sequence[Findings], steps: Sequence[StepCount]) -> None:
        """Add what was handed out, in its order, and the steps in which it was learned."""
        self._steps += steps
        for found in findings:
            self._learned = merged_learned(self._schema, self._learned, found.learned)
            paces = np.concatenate([self._telemetry.paces, found.telemetry.paces])[-MOST_ROWS:]
            self._telemetry = replace(found.telemetry, paces=paces)
            paths = as_table(np.zeros(len(found.paths), PATH))
            add_to_copy(self._paths, len(self._paths), as_table(found.paths), paths)
            self._paths = paths

    def share(self, identity: StreamIdentity, timers: Mapping[int, str]) -> StreamShare:
        """Return the statistics as part of the agent's next delta; ``timers`` are names of its functions."""
        return StreamShare(
            program=identity.program,
            rank=identity.rank,
            timers=timers,
            learned=self._learned,
            steps=self._steps,
            telemetry=self._telemetry,
            paths=self._paths,
        )

    def sent(self, has_paths: bool) -> None:
        """Forget what was sent, which are the paths only now and then."""
        self._learned = Learned(np.empty(0, np.int64), self._schema.empty(0))
        self._steps, self._telemetry = [], StreamTelemetry.none()
        if has_paths:
            forget_calls(self._paths)


class _Member(msgspec.Struct):
    """One of the streams, as its epochs have shown it."""

    identity: StreamIdentity
    unsent: Unsent
    closed: int | None = None
    """Last epoch that it has closed; None before it has begun."""
    names: StreamNames = msgspec.field(default_factory=StreamNames)
    health: StreamHealth | None = None
    """Totals that are not in a delta yet."""
    opened: OpenCalls | None = None
    is_broken: bool = False


class Lockstep:
    """Streams that wait for each other at the end of each epoch: a pure core.

    ::

        due ──advanced, take──▶ closed an epoch ──all have: delta, follow──▶ due
                                  └─ take, it closes all ──▶ over

    A stream that has closed several epochs at once is due again when all streams have closed them.

    Parameters
    ----------
    statistics
        Statistics of all streams, as of an agent that reads them all.
    """

    def __init__(
        self, statistics: AgentStatistics, streams: Sequence[StreamIdentity], config: AnalysisConfig
    ) -> None:
        self.statistics = statistics
        self._members = {
            f"{one.program}:{one.rank}": _Member(one, Unsent(statistics.schema)) for one in streams
        }
        self._config = config

    @property
    def is_over(self) -> bool:
        """Whether all streams have closed all epochs."""
        return all(one.closed == ALL_EPOCHS for one in self._members.values())

    def due(self) -> dict[str, StreamModel | None]:
        """Return the keys of the streams that go on now, each with a newer model, if there is one."""
        model = self.statistics.model
        return {
            key: self._model_of(one) if model.closed_epoch > NO_EPOCH else None
            for key, one in self._members.items()
            if one.closed is None or one.closed <= model.closed_epoch < ALL_EPOCHS
        }

    def take(self, closed: EpochClosed) -> None:
        """Take what a stream that was due has brought."""
        one = self._members[closed.key]
        one.closed, one.opened, one.is_broken = closed.epoch, closed.opened, closed.is_broken
        if closed.names is not None:
            one.names = closed.names
        one.unsent.add(closed.findings, closed.steps)

    def note_health(self, key: str, health: StreamHealth) -> None:
        """Note running totals of a stream, for the next delta."""
        self._members[key].health = health

    def delta(self) -> Delta:
        """Return what all streams have learned in the epoch that they have closed; none is due."""
        closed = {key: one.closed for key, one in self._members.items() if one.closed is not None}
        assert len(closed) == len(self._members), "a stream has not begun"
        delta = self._next(closed)
        assert delta is not None, "the epochs themselves are news"
        return delta

    def last_delta(self) -> Delta | None:
        """Return what is left when all streams are over; None if nothing is."""
        return self._next({})

    def overdue(self) -> list[RecordBatch]:
        """Return records of calls that were open for very long where streams broke off.

        The time of the newest event of all streams is that up to which calls are taken as open.
        """
        left = [one for one in self._members.values() if one.opened is not None]
        newest_us = max((one.opened.newest_us for one in left if one.opened), default=0)
        search = OverdueSearch(self.statistics.model, self._config)
        batches: list[RecordBatch] = []
        for one in left:
            opened = one.opened
            if opened is None or not breaks_off(opened, one.is_broken):
                continue
            silence_us = newest_us - opened.newest_us
            if not is_long_open(opened, silence_us) or not self._config.records_step(opened.step):
                continue
            identity = one.identity
            origin = StreamHealth(
                identity.program, identity.rank, identity.node, READING, 0, 0, 0, 0, 0, 0, {}
            )
            found = search.find(identity.program, opened, one.names, silence_us, is_prompt(one.names))
            batches += [
                RecordBatch(self.statistics.agent, number, call.record, [], [], origin, {})
                for number, call in enumerate(found.calls, len(batches) + 1)
            ]
        return batches

    def _model_of(self, one: _Member) -> StreamModel:
        model = self.statistics.model
        return StreamModel(model.rows_for(one.identity.program, one.names.timers), model.version)

    def _next(self, closed: dict[str, int]) -> Delta | None:
        members = list(self._members.values())
        for one in members:
            # In the order of the streams, whoever has brought what first.
            self.statistics.name(one.identity.program, one.names.timers.values())
            if one.health is not None:
                self.statistics.note_health(one.health)
                one.health = None
        outgoing = self.statistics.next_round(
            [one.unsent.share(one.identity, one.names.timers) for one in members], closed
        )
        if outgoing is None:
            return None
        for one in members:
            one.unsent.sent(outgoing.has_paths)
        (delta,) = outgoing.deltas.values()
        return delta
