"""The agent's connection to the broker: findings to the store, deltas to the server, models back.

It runs in a thread of its own and may wait for the broker as long as that is away: nothing that the
streams do depends on it.
"""

from __future__ import annotations

import time

import msgspec
import numpy as np
from msgspec.structs import replace

from chimbuko.ad.agent.agenttelemetry import AgentTelemetry
from chimbuko.ad.agent.nodewatch import NodeWatch
from chimbuko.ad.calls.selection import AgentBudget
from chimbuko.ad.handoff.exchange import Cell
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.shortage import ShortageNotices, StreamPart
from chimbuko.ad.handoff.spool import SpoolDelivery
from chimbuko.ad.modelsync.modelsync import ModelSync
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.core.arrays import Int64Array
from chimbuko.core.buckets import BUCKETS
from chimbuko.core.calls.record import (
    SILENT,
    UNREADABLE_STREAMS,
    CounterStatistics,
    Metadata,
    StepCount,
    StreamHealth,
)
from chimbuko.core.calls.recordarrays import PackedRecords
from chimbuko.runtime.protocol.messages import PAYLOAD
from chimbuko.runtime.protocol.runbroker import RunBroker

MOST_IN_FLIGHT_BYTES = 4 << 20
"""Maximum size of frames that are sent and not yet in the store, for each agent; the rest waits in the
spools.
"""
ROUND_S = 0.05
"""Minimum time between two rounds, in seconds."""
QUIET_ROUND_S = 1.0
"""Maximum time between two rounds, in seconds, where no stream has notified the agent."""
QUIET_ROUNDS = 3
"""Number of quiet rounds after which frames without a notification are sent: a transaction of the store takes
a millisecond.
"""
ANSWER_S = 0.2
"""Minimum time in seconds between two questions to the store how far it is; meanwhile spools hold frames a
moment longer.
"""
LAST_ROUND_S = 0.01
"""Time between two rounds at the end, in seconds, when somebody waits for them."""


class _FrameHead(msgspec.Struct, array_like=True):
    """Head of a ``RecordBatch``, without the part that only the store needs."""

    stream: str
    sequence: int
    records: PackedRecords
    steps: list[StepCount]
    metadata: list[Metadata]
    health: StreamHealth
    dropped: msgspec.Raw
    counter_statistics: list[CounterStatistics] = []


_heads = msgspec.msgpack.Decoder(_FrameHead)


class AgentSpools(msgspec.Struct, frozen=True):
    """Spools of one agent: those of its streams, and its own."""

    streams: list[StreamHandle]
    """The agent's streams; the list grows as the supervisor, another thread, finds streams."""
    own: SpoolDelivery

    @property
    def deliveries(self) -> list[SpoolDelivery]:
        """Deliveries from all spools, the agent's own first."""
        return [self.own, *(stream.delivery for stream in self.streams)]


class AgentReports(msgspec.Struct, frozen=True):
    """Reports of one agent beside what its streams have found."""

    telemetry: AgentTelemetry
    shortages: ShortageNotices
    node: NodeWatch | None = None
    """Sampling of the node; None if all streams are recorded, or it is not wanted."""

    def note(self, stream: StreamHandle, head: _FrameHead) -> None:
        """Note a frame of a stream that is sent for the first time."""
        self.telemetry.note(stream, head.steps, head.counter_statistics)
        if self.node is not None:
            self.node.note(head.health.program, head.health.rank, head.metadata, head.records)

    def report(self, is_flushing: bool) -> None:
        """Report what there is to say of the agent."""
        self.shortages.report(is_flushing)
        self.telemetry.report(is_flushing)


BUDGET_PERIOD_S = 1.0
BEHIND_SHARE = 0.5
"""Share of its budget that an agent keeps to while findings queue in its spools: the rest is for these."""


class StreamBudgets:
    """Budget of abnormal calls of an agent, of which its streams learn from which severity they record any.

    Parameters
    ----------
    streams
        The agent's streams; the list grows as the supervisor, another thread, finds streams.
    """

    def __init__(self, streams: list[StreamHandle]) -> None:
        self._streams = streams
        self._budget = AgentBudget()
        self._offered: dict[str, Int64Array] = {}
        """Number of calls of each severity that each stream had found in all, at the last look."""
        self._looked_at = time.monotonic()
        self.per_s: float | None = None
        """Calls per second that the store takes of this agent; None for all."""

    def spread(self, now_s: float, is_behind: bool) -> None:
        """Let the streams know, once in a period, from which severity they record calls.

        Parameters
        ----------
        is_behind
            Whether findings queue in the spools.
        """
        passed_s = now_s - self._looked_at
        if passed_s < BUDGET_PERIOD_S:
            return
        self._looked_at = now_s
        streams = list(self._streams)
        found = np.zeros(BUCKETS, np.int64)
        for stream in streams:
            offered = stream.box.offered.copy()
            # The successor of a process that was killed counts anew what was not committed.
            found += np.maximum(offered - self._offered.get(stream.key, offered), 0)
            self._offered[stream.key] = offered
        per_s = self.per_s
        if per_s is not None and is_behind:
            per_s *= BEHIND_SHARE
        least_us = int(self._budget.least_us(found, passed_s, per_s))
        for stream in streams:
            stream.box[Cell.LEAST_US] = least_us


class SpoolShipper:
    """Exchange with the broker for all streams of one agent.

    Parameters
    ----------
    notifier
        Notifier by which streams wake the agent for urgent news; None in lockstep, where the exchange itself
        waits for the streams.
    """

    def __init__(
        self,
        broker: RunBroker,
        statistics: ModelSync,
        spools: AgentSpools,
        reports: AgentReports,
        notifier: AgentNotifier | None,
    ) -> None:
        self._broker = broker
        self._client, self._keys, self._seal = broker.client, broker.keys, broker.seal
        self._statistics = statistics
        self._spools = spools
        self._reports = reports
        self._notifier = notifier
        self._looked_at = self._answered_at = 0.0
        self._is_flushing = False
        self._is_store_wanted = self._is_behind = False
        self._quiet_rounds = QUIET_ROUNDS
        self._counted: dict[str, int] = {}
        self._budgets = StreamBudgets(spools.streams)

    def exchange_once(self) -> None:
        """Do one round; raises ``redis.RedisError`` where the broker is away."""
        now = time.monotonic()
        if self._is_flushing or now - self._looked_at >= ROUND_S:
            self._looked_at = now
            if self._is_flushing or now - self._answered_at >= ANSWER_S:
                self._answered_at = now
                self._receive_acknowledgements()
            self._quiet_rounds += 1
            if self._is_flushing or self._is_behind or self._quiet_rounds >= QUIET_ROUNDS:
                self._ship()
                self._quiet_rounds = 0
            if self._notifier is not None:
                self._budgets.spread(now, self._is_behind)
            self._note_shortages()
            self._report_silence()
            self._reports.report(self._is_flushing)
        self._statistics.exchange(self._is_flushing)

    def wait(self) -> None:
        """Wait until the next round is due."""
        if self._is_flushing:
            time.sleep(min(LAST_ROUND_S, ROUND_S))
        elif self._notifier is not None:
            quiet_s = ROUND_S if self._is_behind else QUIET_ROUND_S
            due_s = min(self._looked_at + quiet_s, self._statistics.due_s)
            if self._notifier.wait(due_s - time.monotonic()):
                self._statistics.heed(time.monotonic())
                self._quiet_rounds = QUIET_ROUNDS
                # News of other streams in the meantime go into the same round.
                time.sleep(max(self._looked_at + ROUND_S - time.monotonic(), 0.0))

    def broker_was_away(self) -> None:
        """Send everything again that was under way and may be lost."""
        self._statistics.send_again()
        for delivery in self._spools.deliveries:
            delivery.send_again()
        self._is_store_wanted = self._is_flushing

    @property
    def is_settled(self) -> bool:
        """Return whether, after ``flush``, all findings are in the store and all statistics in the model."""
        return self._is_flushing and self._statistics.is_settled and self.is_delivered

    @property
    def is_delivered(self) -> bool:
        """Return whether all findings are in the store."""
        return all(delivery.is_delivered for delivery in self._spools.deliveries)

    @property
    def delivered(self) -> int:
        """Number of frames of all spools that are in the store: it rises as long as delivery goes on."""
        return sum(delivery.acknowledged for delivery in self._spools.deliveries)

    def flush(self) -> None:
        """Send a delta as soon as there is something to send from now on: all streams have ended."""
        self._is_flushing = self._is_store_wanted = True

    def _receive_acknowledgements(self) -> None:
        waiting = [delivery for delivery in self._spools.deliveries if delivery.is_waiting]
        if not waiting:
            return
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.hmget(self._keys.record_acks, [delivery.key for delivery in waiting])
            pipeline.hget(self._keys.budgets, str(self._broker.writer))
            answers, budget = pipeline.execute()
        self._budgets.per_s = None if budget is None else float(budget)
        for delivery, answer in zip(waiting, answers, strict=True):
            if answer is not None:
                delivery.arrived(int(answer))

    def _ship(self) -> None:
        room = MOST_IN_FLIGHT_BYTES - sum(delivery.in_flight_bytes for delivery in self._spools.deliveries)
        # Streams may be added meanwhile.
        spools = replace(self._spools, streams=list(self._spools.streams))
        taken = []
        for delivery in spools.deliveries:
            taken.append(delivery.take(room) if room > 0 else [])
            room -= sum(len(frame) for _, frame in taken[-1])
        self._is_behind = room <= 0
        self._send([frame for frames in taken for _, frame in frames])
        for stream, frames in zip(spools.streams, taken[1:], strict=True):
            self._count(stream, frames)
        if self._reports.node is not None:
            self._reports.node.send()
        if self._is_store_wanted:
            self._broker.wake()
            self._is_store_wanted = False

    def _send(self, frames: list[bytes]) -> None:
        if frames:
            with self._client.pipeline(transaction=False) as pipeline:
                for frame in frames:
                    pipeline.xadd(self._keys.records, {PAYLOAD: self._seal.enclose(frame)})
                pipeline.execute()
            self._is_store_wanted = self._is_flushing

    def _count(self, stream: StreamHandle, frames: list[tuple[int, bytes]]) -> None:
        """Add the totals in frames that are sent for the first time to the next delta."""
        for sequence, frame in frames:
            if sequence > self._counted.get(stream.key, 0):
                self._counted[stream.key] = sequence
                head = _heads.decode(frame)
                self._note_health(stream, head.health)
                self._reports.note(stream, head)

    def _note_health(self, stream: StreamHandle, health: StreamHealth) -> None:
        """Note the totals of a stream; those that came past its spool may be ahead of those that queue in
        there.
        """
        word = stream.word
        newest = health if word is None or word.steps < health.steps else word
        stream.health = stream.last_health(newest)
        self._statistics.note_health(stream.health)

    def _note_shortages(self) -> None:
        """Note what streams go without for lack of storage, and their health meanwhile."""
        shortages = self._reports.shortages
        for stream in list(self._spools.streams):
            shortage = stream.new_shortage()
            for part in shortage.without if shortage else ():
                shortages.without(StreamPart(part), stream.key)
            if not stream.open_calls.has_room:
                shortages.without(StreamPart.OPEN_CALLS, stream.key)
            if not stream.box.has_whole_model:
                shortages.without(StreamPart.MODEL, stream.key)
            word = stream.new_word()
            if word is not None:
                self._note_health(stream, word)
                if UNREADABLE_STREAMS in word.losses:
                    shortages.unreadable(stream.key)

    def _report_silence(self) -> None:
        """Report the health of streams that fell silent, or no longer are: their processes cannot."""
        for stream in self._spools.streams:
            silence = stream.silence
            if silence is stream.reported_silence or stream.health is None:
                continue
            stream.reported_silence = silence
            state = stream.health.state if silence is None else SILENT
            health = msgspec.structs.replace(stream.health, state=state, silence=silence)
            self._statistics.note_health(health)
