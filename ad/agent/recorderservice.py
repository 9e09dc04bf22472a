"""Answers requests for what the flight recorders of an agent's streams hold, and for calls that waited, or
lost time, while a call of another rank lost time.
"""

from __future__ import annotations

import time
from collections import deque

import msgspec

from chimbuko.ad.handoff.flightrecorder import read_recording
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.causes.evidence.recordedcalls import answers
from chimbuko.causes.evidence.recordedrows import Interval, RankIdentity, RecordedRows
from chimbuko.core.calls.recordarrays import pack
from chimbuko.runtime.protocol.messages import PAYLOAD, RecallAnswer, RecallRequest, RecordBatch, WaitsRequest
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


# Search for calls that waited, or lost time, while a call of another rank lost time: answers to the
# writer's questions.
#
# Answers come from the flight recorders, so that the processes of the streams are not disturbed. The calls
# found go to the store as records of normal calls.


SEARCH_POLL_S = 1.0
"""Time between two looks, in seconds. All that has been asked about a stream meanwhile takes one look at its
recorder.
"""
SEARCH_READ_COUNT = 100
MOST_SHARE = 0.05
"""Maximum share of the time between two looks that answers take; one stream is read in any case."""
PATIENCE_S = 5.0
"""Time in seconds after which a recorder that does not reach to the end of an interval is read as far as it
is.
"""
LATEST_S = 20.0
"""Time in seconds after which a question is not answered any more."""

_search_requests = msgspec.msgpack.Decoder(WaitsRequest)


class _Asked(msgspec.Struct, frozen=True):
    """One question about one stream."""

    interval: Interval
    since_s: float


class WaitSearch:
    """Answers to questions about the streams of one agent.

    Parameters
    ----------
    agent
        Name of the agent, under which answers go to the store.
    streams
        The agent's streams; the list grows as streams are found.
    """

    def __init__(self, agent: str, broker: RunBroker, streams: list[StreamHandle]) -> None:
        self._agent = agent
        self._broker = broker
        self._streams = streams
        self._read_to = b"0"
        self._looked_s = 0.0
        self._due: dict[str, list[_Asked]] = {}
        """Open questions by stream, in the order in which the streams were asked about first."""

    def serve(self) -> None:
        """Receive questions, and answer some of them; raises ``redis.RedisError`` where the broker is
        away.
        """
        begin_s = time.monotonic()
        if begin_s - self._looked_s < SEARCH_POLL_S:
            return
        self._looked_s = begin_s
        self._receive(begin_s)
        streams = {stream.key: stream for stream in self._streams}
        for key in list(self._due):
            self._answer(streams[key], begin_s)
            if time.monotonic() - begin_s > MOST_SHARE * SEARCH_POLL_S:
                break

    def finish(self) -> None:
        """Answer all open questions, once the streams are over; what has come before is in the store."""
        now_s = time.monotonic()
        self._receive(now_s)
        streams = {stream.key: stream for stream in self._streams}
        for key in list(self._due):
            self._answer(streams[key], now_s)

    def _receive(self, now_s: float) -> None:
        known = {(stream.program, stream.name.rank): stream.key for stream in self._streams}
        while entries := self._broker.read(
            self._broker.keys.waits_requests, self._read_to, SEARCH_READ_COUNT
        ):
            self._read_to = entries[-1][0]
            for request in self._broker.seal.decoded(entries, _search_requests):
                for rank, ahead_us in request.ranks.items():
                    key = known.get((request.program, rank))
                    if key is not None:
                        begin_us, end_us = request.begin_us + ahead_us, request.end_us + ahead_us
                        least_us = request.least_us, request.least_own_us
                        asked = _Asked(Interval(begin_us, end_us, *least_us), now_s)
                        self._due.setdefault(key, []).append(asked)

    def _answer(self, stream: StreamHandle, now_s: float) -> None:
        newest_us = stream.open_calls.newest_us
        asked = [one for one in self._due.pop(stream.key) if now_s - one.since_s < LATEST_S]
        is_ready = [
            stream.is_over or newest_us >= one.interval.end_us or now_s - one.since_s >= PATIENCE_S
            for one in asked
        ]
        later = [one for one, ready in zip(asked, is_ready, strict=True) if not ready]
        if later:
            self._due[stream.key] = later
        if any(is_ready):
            self._send(stream, [one.interval for one, ready in zip(asked, is_ready, strict=True) if ready])

    def _send(self, stream: StreamHandle, intervals: list[Interval]) -> None:
        stream.learn_names()
        identity = RankIdentity(stream.program, stream.name.rank, stream.node)
        rows = RecordedRows(identity, read_recording(stream.recorder_path).steps, stream.names)
        found = answers(rows, intervals)
        if not found:
            return
        name = f"{self._agent} waits"
        batch = RecordBatch.of_others(name, identity.program, identity.rank, identity.node, pack(found))
        self._broker.client.xadd(self._broker.keys.records, {PAYLOAD: self._broker.seal.encode(batch)})
