"""The agent's connection to the broker: findings to the store, deltas to the server, models back.

It runs in a thread of its own and may wait for the broker as long as that is away: nothing that the
streams do depends on it.
"""

from __future__ import annotations

import time

import msgspec
import redis

from chimbuko.ad.delivery import SpoolDelivery
from chimbuko.ad.merging import AgentStatistics
from chimbuko.ad.stream import AgentStream
from chimbuko.broker import read_stream
from chimbuko.messages import (
    DELTAS,
    MODEL,
    MODEL_UPDATES,
    PAYLOAD,
    RECORD_ACKS,
    RECORDS,
    Delta,
    ModelUpdate,
)
from chimbuko.records import SILENT, StepCount, StreamHealth

MOST_IN_FLIGHT_BYTES = 4 << 20
"""Per agent: what is sent and not yet in the store; the rest waits in the spools."""
RESEND_S = 5.0
ROUND_S = 0.02
LOCKSTEP_ROUND_S = 0.002
"""In lockstep the streams wait for each round."""
READ_COUNT = 100


class _FrameHead(msgspec.Struct, array_like=True):
    """The part of a ``RecordBatch`` that the server needs; the records are not decoded."""

    stream: str
    sequence: int
    records: msgspec.Raw
    steps: list[StepCount]
    metadata: msgspec.Raw
    health: StreamHealth


_heads = msgspec.msgpack.Decoder(_FrameHead)
_updates = msgspec.msgpack.Decoder(ModelUpdate)
_encoder = msgspec.msgpack.Encoder()


class BrokerLink:
    """Exchanges with the broker for all streams of one agent.

    Parameters
    ----------
    streams
        Grows as the supervisor finds streams.
    reports
        The agent's own spool.
    period_s
        Time between two deltas; not used in lockstep, where each closed epoch makes one.
    """

    def __init__(
        self,
        broker: redis.Redis,
        statistics: AgentStatistics,
        streams: list[AgentStream],
        reports: SpoolDelivery,
        period_s: float,
        is_lockstep: bool,
    ) -> None:
        self._broker = broker
        self._statistics = statistics
        self._streams = streams
        self._reports = reports
        self._period_s = period_s
        self._is_lockstep = is_lockstep
        self._outstanding: Delta | None = None
        self._outstanding_since = 0.0
        self._delta_at = 0.0
        self._is_flushing = False
        self._model_read_to = b"0"
        self._counted: dict[str, int] = {}

    def exchange_once(self) -> None:
        """One round; raises ``redis.RedisError`` where the broker is away."""
        self._receive_models()
        self._receive_acknowledgements()
        self._ship()
        self._tell_silence()
        self._send_delta()
        time.sleep(LOCKSTEP_ROUND_S if self._is_lockstep else ROUND_S)

    def broker_was_away(self) -> None:
        """Whatever was under way may be lost: send it again."""
        self._outstanding_since = 0.0
        for delivery in self._deliveries:
            delivery.send_again()

    @property
    def is_settled(self) -> bool:
        """After ``flush``: all findings are in the store and all statistics in the model."""
        return self._is_flushing and self._outstanding is None and self.is_delivered

    @property
    def is_delivered(self) -> bool:
        """All findings are in the store."""
        return all(delivery.is_delivered for delivery in self._deliveries)

    @property
    def delivered(self) -> int:
        """How many frames of all spools are in the store: it rises as long as delivery goes on."""
        return sum(delivery.acknowledged for delivery in self._deliveries)

    @property
    def _deliveries(self) -> list[SpoolDelivery]:
        return [self._reports, *(stream.delivery for stream in self._streams)]

    def flush(self) -> None:
        """From now on send a delta as soon as there is something to send: all streams have ended."""
        self._is_flushing = True

    def _receive_models(self) -> None:
        entries = read_stream(self._broker, MODEL_UPDATES, self._model_read_to, READ_COUNT)
        for entry, payload in entries:
            self._model_read_to = entry
            update = _updates.decode(payload)
            if update.version > self._statistics.version + 1:
                # Updates were missed: take the whole model, which is at least as new as this one.
                whole = self._broker.get(MODEL)
                update = _updates.decode(whole) if isinstance(whole, bytes) else update
            self._take_over(update)
        if self._outstanding and self._statistics.merged_sequence >= self._outstanding.sequence:
            self._outstanding = None
        if not self._is_lockstep:
            self._give_models()

    def _take_over(self, update: ModelUpdate) -> None:
        """Apply an update. In lockstep streams get the model exactly as it was when an epoch closed."""
        closed_epoch = self._statistics.closed_epoch
        self._statistics.apply(update)
        if self._is_lockstep and self._statistics.closed_epoch > closed_epoch:
            self._give_models()

    def _give_models(self) -> None:
        for stream in self._streams:
            with stream.lock:
                self._give_model(stream)

    def _give_model(self, stream: AgentStream) -> None:
        statistics = self._statistics
        stream.learn_names()
        if stream.model_version == statistics.version or stream.is_over:
            return
        for sequence, generation in stream.generations:
            if sequence <= statistics.merged_sequence:
                stream.merged_generation = generation
        table = statistics.model_for(stream.program, stream.names.timers)
        if stream.box.put_model(statistics.version, statistics.closed_epoch, stream.merged_generation, table):
            stream.model_version = statistics.version
            stream.generations = [
                (sequence, generation)
                for sequence, generation in stream.generations
                if sequence > statistics.merged_sequence
            ]

    def _receive_acknowledgements(self) -> None:
        waiting = [delivery for delivery in self._deliveries if delivery.is_waiting]
        if not waiting:
            return
        answers = self._broker.hmget(RECORD_ACKS, [delivery.key for delivery in waiting])
        for delivery, answer in zip(waiting, answers, strict=True):
            if answer is not None:
                delivery.arrived(int(answer))

    def _ship(self) -> None:
        room = MOST_IN_FLIGHT_BYTES - sum(delivery.in_flight_bytes for delivery in self._deliveries)
        for stream in self._streams:
            frames = self._send(stream.delivery, room)
            room -= sum(len(frame) for _, frame in frames)
            self._count(stream, frames)
        self._send(self._reports, room)

    def _send(self, delivery: SpoolDelivery, room: int) -> list[tuple[int, bytes]]:
        """Send frames until they exceed ``room`` bytes."""
        frames = delivery.take(room) if room > 0 else []
        if frames:
            with self._broker.pipeline(transaction=False) as pipeline:
                for _, frame in frames:
                    pipeline.xadd(RECORDS, {PAYLOAD: frame})
                pipeline.execute()
        return frames

    def _count(self, stream: AgentStream, frames: list[tuple[int, bytes]]) -> None:
        """Step counts of frames sent for the first time go into the next delta."""
        for sequence, frame in frames:
            if sequence > self._counted.get(stream.key, 0):
                self._counted[stream.key] = sequence
                head = _heads.decode(frame)
                stream.health = head.health
                self._statistics.gather_counts(head.steps, head.health)

    def _tell_silence(self) -> None:
        """Health of streams that fell silent, or no longer are: their processes cannot tell."""
        for stream in self._streams:
            silence = stream.silence
            if silence is stream.told_silence or stream.health is None:
                continue
            stream.told_silence = silence
            state = stream.health.state if silence is None else SILENT
            health = msgspec.structs.replace(stream.health, state=state, silence=silence)
            self._statistics.gather_counts([], health)

    def _send_delta(self) -> None:
        now = time.monotonic()
        if self._outstanding is not None:
            if now - self._outstanding_since > RESEND_S:
                self._send_outstanding()
            return
        closed = self._newly_closed()
        is_due = bool(closed) if self._is_lockstep else now - self._delta_at >= self._period_s
        if not (is_due or self._is_flushing):
            return
        self._delta_at = now
        for stream in self._streams:
            with stream.lock:
                self._take(stream)
        self._outstanding = self._statistics.next_delta(closed)
        if self._outstanding is None:
            return
        self._send_outstanding()

    def _newly_closed(self) -> dict[str, int]:
        """In lockstep the closed epochs of all streams together, once the last of them has moved on."""
        if not self._is_lockstep or not self._streams:
            return {}
        closed = {stream.key: stream.closed_epoch for stream in self._streams}
        sent = min(stream.sent_epoch for stream in self._streams)
        if min(closed.values()) <= sent:
            return {}
        for stream in self._streams:
            stream.sent_epoch = closed[stream.key]
        return closed

    def _take(self, stream: AgentStream) -> None:
        """Gather what a stream has learned; left for the next delta where its process holds the box."""
        taken = stream.box.take()
        while taken is None and self._is_lockstep:
            # The stream has closed an epoch: what it learned in it must be in this delta.
            time.sleep(LOCKSTEP_ROUND_S)
            taken = stream.box.take()
        if taken is None:
            return
        generation, learned = taken
        stream.generations.append((self._statistics.next_sequence, generation))
        stream.learn_names()
        for part in (*stream.leftovers, learned):
            self._statistics.gather(stream.program, stream.names.timers, part)
        stream.leftovers.clear()

    def _send_outstanding(self) -> None:
        self._broker.xadd(DELTAS, {PAYLOAD: _encoder.encode(self._outstanding)})
        self._outstanding_since = time.monotonic()
