"""Answers requests for what the flight recorders of an agent's streams hold."""

from __future__ import annotations

import time
from collections import deque

import msgspec

from chimbuko.ad.handoff.flightrecorder import read_recording
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.runtime.protocol.messages import RecallAnswer, RecallRequest
from chimbuko.runtime.protocol.runbroker import RunBroker

POLL_S = 0.5
READ_COUNT = 10
ANSWERS_LIVE_S = 60
"""Time in seconds after which an answer that nobody fetched is deleted."""
MOST_ANSWER_BYTES = 256 << 20
"""Maximum size of all answers to one request: the broker holds them in memory."""

_requests = msgspec.msgpack.Decoder(RecallRequest)


class RecorderService:
    """Answers to requests for the flight recorders of one agent's streams.

    Parameters
    ----------
    streams
        The agent's streams; the list grows as streams are found.
    """

    def __init__(self, broker: RunBroker, streams: list[StreamHandle]) -> None:
        self._broker = broker
        self._streams = streams
        self._read_to = b"0"
        self._polled_at = 0.0
        self._due: deque[tuple[RecallRequest, StreamHandle]] = deque()

    def serve(self) -> None:
        """Answer for one stream at most, so that the agent's other messages are not held up.

        Raises ``redis.RedisError`` where the broker is away.
        """
        now = time.monotonic()
        if now - self._polled_at >= POLL_S:
            self._polled_at = now
            self._receive()
        if self._due:
            request, stream = self._due.popleft()
            self._answer(request, stream)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is due."""
        return bool(self._due)

    def _receive(self) -> None:
        entries = self._broker.read(self._broker.keys.recall_requests, self._read_to, READ_COUNT)
        self._read_to = entries[-1][0] if entries else self._read_to
        for request in self._broker.seal.decoded(entries, _requests):
            wanted = set(request.streams)
            self._due += [(request, stream) for stream in self._streams if stream.key in wanted]

    def _answer(self, request: RecallRequest, stream: StreamHandle) -> None:
        stream.learn_names()
        recording = read_recording(stream.recorder_path)
        steps = recording.between(request.start_us, request.end_us, stream.names)
        key = self._broker.keys.recall_answers(request.id)
        size_bytes = sum(step.size_bytes for step in steps)
        sent_bytes = self._broker.client.incrby(f"{key}:bytes", size_bytes)
        is_left_out = sent_bytes > MOST_ANSWER_BYTES
        answer = RecallAnswer(
            stream=stream.key,
            rank=stream.name.rank,
            names=stream.names,
            since_us=recording.since_us,
            steps=[] if is_left_out else steps,
            is_left_out=is_left_out,
        )
        with self._broker.client.pipeline(transaction=False) as pipeline:
            pipeline.rpush(key, self._broker.seal.encode(answer))
            pipeline.expire(key, ANSWERS_LIVE_S)
            pipeline.expire(f"{key}:bytes", ANSWERS_LIVE_S)
            pipeline.execute()
