"""The agent's exchange with the parameter server: deltas out, acknowledgements and the model back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import numpy as np
import redis

from chimbuko.ad.handoff.exchange import Cell
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.modelsync.deltamaker import LOCK_POLL_S, DeltaMaker
from chimbuko.ad.streams.commits import quiet_s
from chimbuko.ad.streams.deltalog import DeltaLog
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.core.arrays import Int64Array
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.statistics.schema import PackedTable
from chimbuko.runtime.protocol.messages import (
    ALL_EPOCHS,
    PAYLOAD,
    Acknowledgement,
    Delta,
    FunctionName,
    ModelUpdate,
)
from chimbuko.runtime.protocol.runbroker import RunBroker

RECEIVED_PER_PERIOD = 3
"""Number of times that an agent asks for a newer model from one delta to the next. With fewer, live flags
agree less with those of lockstep.
"""
RECEIVED_PER_S = 2_000
"""Maximum rate at which all agents together ask for a newer model: 10,000 agents would otherwise keep the
broker busy. Each agent asks before it sends.
"""
SHORTEST_PERIOD_S = 0.1
"""Shortest period of the exchange in seconds, used while streams have urgent news."""
LIVELY_S = 2.0
"""Time in seconds for which the shortest period is used after urgent news: there may be more of it, at other
agents, too.
"""
DELTAS_PER_S = 250
"""Maximum rate of deltas of all agents together; with many agents the period of each is longer."""
EXCHANGE_SHARE = 0.02
"""Maximum share of an agent's time that is spent on exchanges; the period is longer where they take more."""
RESEND_S = 5.0
SECURE_S = 1.0
"""Time in seconds for which an agent that is to end waits for the server before it leaves the rest to a
successor.
"""
READ_COUNT = 100
WAIT_S = 0.05
"""Time in seconds for which one turn in lockstep waits: for its streams to close an epoch, or for the model
of that epoch.
"""

_acknowledgements = msgspec.msgpack.Decoder(Acknowledgement)
_updates = msgspec.msgpack.Decoder(ModelUpdate)
_names = msgspec.msgpack.Decoder(FunctionName)
_rows = msgspec.msgpack.Decoder(PackedTable)


class ModelSync:
    """Exchange of statistics with the parameter server for all streams of one agent.

    Parameters
    ----------
    streams
        The agent's streams; the list grows as the supervisor finds streams.
    notifier
        Notifier by which streams in lockstep report that they have closed an epoch.
    delta_log
        Log of the deltas that are not merged yet, for a successor of this agent.
    period_s
        Longest time between two deltas; not used in lockstep, where each closed epoch makes one.
    """

    def __init__(
        self,
        broker: RunBroker,
        statistics: AgentStatistics,
        streams: list[StreamHandle],
        notifier: AgentNotifier,
        delta_log: DeltaLog,
        period_s: float,
        is_lockstep: bool,
    ) -> None:
        self._client, self._seal = broker.client, broker.seal
        self._parts = [broker.keys.part(part) for part in range(statistics.parts)]
        self._statistics = statistics
        self._streams = streams
        self._notifier = notifier
        self._period_s = period_s
        self._is_lockstep = is_lockstep
        self._maker = DeltaMaker(statistics, delta_log, period_s, is_lockstep)
        self._unsaved = self._maker.pending
        self._must_send_all = bool(self._unsaved)
        self._agents = 1
        self._pause_s = SHORTEST_PERIOD_S
        self._urgent_at = -LIVELY_S
        self._is_urgent = False
        self._sent_at = self._delta_at = 0.0
        self._received_at = 0.0
        self._read_to = {keys.model_updates: b"0" for keys in self._parts}
        self.is_settled = False
        """Whether all streams have ended and all their statistics are in the model."""

    def let_inherit(self, stream: StreamHandle) -> None:
        """Continue a stream from the point at which an earlier agent died, if one did."""
        self._maker.let_inherit(stream)

    def note_health(self, health: StreamHealth) -> None:
        """Note running totals of one stream, for the next delta."""
        self._statistics.note_health(health)

    def send_again(self) -> None:
        """Send everything again that may be lost with the broker."""
        self._must_send_all = True

    def secure(self) -> None:
        """Leave all that streams have to a successor, though the server has not answered: this agent may be
        killed soon, and its node be gone.
        """
        if self._is_lockstep:
            # A delta is made when all streams have closed an epoch.
            return
        if not self._unsaved.is_full and self._maker.make(list(self._streams), is_flushing=True):
            self._must_send_all = True
        self._maker.leave_all()

    def exchange(self, is_flushing: bool) -> None:
        """Do one round: when flushing at each call, else a few times per period. In lockstep it waits a
        moment.
        """
        now = time.monotonic()
        if self._is_lockstep and not is_flushing:
            self._exchange_epoch(now)
            return
        if not is_flushing and now < self.due_s:
            return
        self._received_at = now
        # The supervisor, another thread, adds streams meanwhile.
        has_news = self._statistics.has_word or any(stream.box.has_news for stream in list(self._streams))
        if not (is_flushing or has_news or self._is_expecting):
            return
        self._exchange(now, is_flushing)
        took_s = time.monotonic() - now
        shared_s = max(SHORTEST_PERIOD_S, self._agents / DELTAS_PER_S, took_s / EXCHANGE_SHARE)
        self._pause_s = min(self._period_s, shared_s)

    def heed(self, now: float) -> None:
        """Note, in a live run, that a stream has urgent news."""
        self._urgent_at, self._is_urgent = now, True

    @property
    def due_s(self) -> float:
        """Return when the next round of a live run is due, by the monotonic clock."""
        pause_s = self._paused_s(time.monotonic())
        due_s = self._received_at + (look_s(pause_s, self._agents) if self._is_expecting else pause_s)
        if not self._is_urgent:
            return due_s
        # While the server has not answered there is nothing to send.
        earliest_s = self._received_at + look_s(self._pause_s, self._agents)
        return min(due_s, max(self._delta_at + self._pause_s, earliest_s))

    def _paused_s(self, now: float) -> float:
        """Return the time from one delta to the next in a live run, in seconds."""
        is_quiet = now - self._urgent_at >= LIVELY_S
        return max(self._pause_s, quiet_s(self._period_s)) if is_quiet else self._pause_s

    @property
    def _is_expecting(self) -> bool:
        """Return whether, in a live run, something may come from the server for which no delta of this agent
        is needed.
        """
        is_answered = self._unsaved.contained >= self._statistics.round
        return self._agents > 1 or not is_answered or self._must_send_all

    def _exchange_epoch(self, now: float) -> None:
        """Send the statistics of a closed epoch, and wait for its model; all in one message each way."""
        if not self._is_awaiting and not self._await_closing(now + WAIT_S):
            return
        streams = list(self._streams)
        for stream in streams:
            self._maker.name_functions(stream)
        deltas: dict[int, list[Delta]] = {}
        if self._must_send_all or (self._unsaved.is_waiting and now - self._sent_at > RESEND_S):
            deltas = self._unsaved.all()
        elif not self._unsaved.is_waiting and not self._unsaved.is_full:
            deltas = self._maker.make(streams, False)
        self._must_send_all = False
        self._sent_at = now if deltas else self._sent_at
        try:
            self._receive(streams, deltas, int(1000 * WAIT_S))
        except redis.RedisError:
            self._must_send_all = True
            raise

    @property
    def _is_awaiting(self) -> bool:
        """Return whether, in lockstep, something is to come from the server before the streams go on."""
        if self._must_send_all or self._unsaved.is_waiting or not self._streams:
            return bool(self._unsaved) or self._must_send_all
        sent = min(stream.sent_epoch for stream in self._streams)
        return self._statistics.model.closed_epoch < sent < ALL_EPOCHS

    def _await_closing(self, until: float) -> bool:
        """Wait until all streams have closed another epoch; return False if they have not by then."""
        while not self._has_closed():
            left_s = until - time.monotonic()
            if left_s <= 0.0:
                return False
            self._notifier.wait(left_s)
        return True

    def _has_closed(self) -> bool:
        # The supervisor, another thread, adds streams meanwhile.
        streams = list(self._streams)
        sent = min((stream.sent_epoch for stream in streams), default=ALL_EPOCHS)
        return sent < ALL_EPOCHS and all(stream.closed_epoch > sent for stream in streams)

    def _exchange(self, now: float, is_flushing: bool) -> None:
        # The supervisor, another thread, adds streams meanwhile.
        streams = list(self._streams)
        for stream in streams:
            self._maker.name_functions(stream)
        self._receive(streams)
        if self._unsaved.is_waiting and now - self._sent_at > RESEND_S:
            self._must_send_all = True
        if self._must_send_all:
            self._send(self._unsaved.all())
            self._must_send_all = False
        elif self._unsaved.is_waiting or self._unsaved.is_full:
            if is_flushing and now - self._sent_at > SECURE_S:
                self.secure()
        elif is_flushing or now - self._delta_at >= self._paused_s(now):
            self._delta_at, self._is_urgent = now, False
            deltas = self._maker.make(streams, is_flushing)
            if deltas:
                self._send(deltas)
            self.is_settled = not deltas and is_flushing

    def _receive(
        self,
        streams: list[StreamHandle],
        deltas: Mapping[int, Sequence[Delta]] | None = None,
        block_ms: int | None = None,
    ) -> None:
        """Send these deltas; take acknowledgements and a newer model, waiting for it up to ``block_ms``."""
        with self._client.pipeline(transaction=False) as pipeline:
            for part, of_part in (deltas or {}).items():
                for delta in of_part:
                    pipeline.xadd(self._parts[part].deltas, {PAYLOAD: self._seal.encode(delta)})
            asked = [] if deltas else self._parts
            for keys in asked:
                pipeline.hget(keys.acks, self._statistics.agent)
            pipeline.xread(cast(Any, self._read_to), count=READ_COUNT, block=block_ms)
            *acknowledged, answers = pipeline.execute()[-1 - len(asked) :]
        found = {stream.decode(): entries for stream, entries in answers or []}
        for part, keys in enumerate(self._parts):
            entries = found.get(keys.model_updates, [])
            if entries:
                self._read_to[keys.model_updates] = entries[-1][0]
            payloads = [(entry, fields[PAYLOAD]) for entry, fields in entries]
            updates = list(self._seal.decoded(payloads, _updates))
            self._acknowledge(part, updates, acknowledged[part] if asked else None)
            self._take_over(part, updates)
        for stream in streams:
            # In lockstep each gets one of each epoch: also a stream that is found when the update has come,
            # whose agent died before it had given that on; and none that is older than what it has.
            if not self._is_lockstep or self._statistics.model.closed_epoch > stream.box[Cell.MODEL_EPOCH]:
                self._give_model(stream)

    def _acknowledge(self, part: int, updates: list[ModelUpdate], reported: bytes | None) -> None:
        """Learn how far a part is from its updates, or else from what it has reported in its hash."""
        pending = self._unsaved.parts[part]
        # A row may be published a moment after the deltas in it are acknowledged in the hash.
        contained = pending.merged_sequence
        acknowledged = _acknowledgement(self._statistics.agent, updates)
        if acknowledged is not None:
            contained = pending.sequence_of(acknowledged.incarnation, acknowledged.merged)
        elif reported is not None:
            acknowledged = _acknowledgements.decode(reported)
        if acknowledged is not None and not pending.acknowledge(acknowledged):
            self._must_send_all = True
        self._unsaved.contain(part, contained)

    def _take_over(self, part: int, updates: list[ModelUpdate]) -> None:
        """Fetch the rows that changed and are used here."""
        model = self._statistics.model
        for update in updates:
            self._agents = update.agents
            self._learn_functions(part, update)
        wanted = model.wanted(part, updates)
        rows: dict[int, PackedTable | None] = {}
        if wanted:
            fields = [str(number) for number in wanted]
            answers = cast(list[bytes | None], self._client.hmget(self._parts[part].model, fields))
            rows = {
                number: None if row is None else _rows.decode(row)
                for number, row in zip(wanted, answers, strict=True)
            }
        model.apply(part, updates, rows)

    def _learn_functions(self, part: int, update: ModelUpdate) -> None:
        model = self._statistics.model
        is_new = model.is_of_another_server(part, update)
        known = 0 if is_new else model.known_functions(part)
        if update.functions > known or is_new:
            names = cast(list[bytes], self._client.lrange(self._parts[part].functions, known, -1))
            model.learn_functions(part, update.server, [_names.decode(name) for name in names])

    def _give_model(self, stream: StreamHandle) -> None:
        model, contained = self._statistics.model, self._unsaved.contained
        if stream.model_edition == model.edition or stream.is_over:
            return
        stream.merged_generation = _last_generation(stream, contained)
        table, ahead = model.rows_for(stream.program, stream.names.timers), self._ahead(stream)
        epoch, merged = model.closed_epoch, stream.merged_generation
        while not stream.box.put_model(model.version, epoch, merged, table, ahead):
            if not self._is_lockstep:
                return
            # A process that takes over looks for it just now. Without it the stream would wait for ever: the
            # next one comes when it has closed another epoch.
            time.sleep(LOCK_POLL_S)
        stream.model_edition = model.edition
        stream.generations = [
            (number, generation) for number, generation in stream.generations if number > contained
        ]

    def _ahead(self, stream: StreamHandle) -> Int64Array | None:
        """Return the last generation of a stream that each row of the model contains, int64[timers], where
        one part of the server has merged more than another; else None.
        """
        rounds = [self._unsaved.contained_by(part) for part in range(len(self._parts))]
        if max(rounds) == self._unsaved.contained:
            return None
        generations = np.array([_last_generation(stream, number) for number in rounds])
        of_timers: Int64Array = generations[
            self._statistics.model.parts_for(stream.program, stream.names.timers)
        ]
        return of_timers

    def _send(self, deltas: Mapping[int, Sequence[Delta]]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for part, of_part in deltas.items():
                for delta in of_part:
                    pipeline.xadd(self._parts[part].deltas, {PAYLOAD: self._seal.encode(delta)})
            pipeline.execute()
        self._sent_at = time.monotonic()


def _acknowledgement(agent: str, updates: list[ModelUpdate]) -> Acknowledgement | None:
    """Return the newest acknowledgement that came with an update."""
    found = [update.acknowledgements[agent] for update in updates if agent in update.acknowledgements]
    return found[-1] if found else None


def _last_generation(stream: StreamHandle, contained: int) -> int:
    """Return the last generation of a stream's outbox that is in the model, if that contains the rounds up to
    ``contained``.
    """
    found = [generation for number, generation in stream.generations if number <= contained]
    return found[-1] if found else stream.merged_generation


def look_s(pause_s: float, agents: int) -> float:
    """Return the time between two requests for a newer model, where deltas are ``pause_s`` seconds apart."""
    return min(pause_s, max(pause_s / RECEIVED_PER_PERIOD, agents / RECEIVED_PER_S))
