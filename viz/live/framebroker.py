"""Broker as a run's feed sees it: frames to read, and snapshots to ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.viz.live.feedcore import TICK_S
from chimbuko.viz.live.feedevents import (
    AskSnapshots,
    Event,
    FramesRead,
    Moment,
    ReadFrames,
    ReadSnapshots,
    SnapshotRead,
)

BATCH = 256
"""Most frames read at once: more than a minute's worth, so that catching up takes few round trips."""

_frames = msgspec.msgpack.Decoder(Frame)


class FrameBroker:
    """Connection to the broker of a run, on which instructions are done; each may raise ``redis.RedisError``.

    Raises
    ------
    ServiceError
        The URL cannot be understood.
    """

    def __init__(self, url: str, run_id: str) -> None:
        self._broker = RunBroker(_connect(url), run_id)

    def events(self, instruction: ReadFrames | AskSnapshots | ReadSnapshots) -> Iterator[Event]:
        """Do as an instruction says, and give what comes of it."""
        match instruction:
            case ReadFrames(after):
                yield self._frames_read(after)
            case AskSnapshots(parts):
                self._ask(parts)
            case ReadSnapshots(parts):
                for part in parts:
                    answer = self._broker.client.get(self._broker.keys.part(part).snapshot)
                    snapshot = None if answer is None else self._frame(cast(bytes, answer))
                    if snapshot is not None:
                        yield SnapshotRead(Moment.now(), part, snapshot)

    def close(self) -> None:
        """Close the connection."""
        self._broker.client.close()

    def _frames_read(self, after: bytes) -> FramesRead:
        # This waits for news, so that they need not wait for the next round.
        entries = self._broker.read(self._broker.keys.frames, after, BATCH, round(TICK_S * 1000))
        frames = [(int(entry.partition(b"-")[0]) * 1000, self._frame(data)) for entry, data in entries]
        position = entries[-1][0] if entries else after
        return FramesRead(Moment.now(), frames, position, is_all=len(entries) < BATCH)

    def _ask(self, parts: tuple[int, ...]) -> None:
        """Ask parts of the parameter server for what they know, in place of what they said before."""
        with self._broker.client.pipeline(transaction=True) as pipeline:
            for part in parts:
                pipeline.delete(self._broker.keys.part(part).snapshot)
                pipeline.set(self._broker.keys.part(part).snapshot_wanted, 1)
            pipeline.execute()
        self._broker.wake()

    def _frame(self, payload: bytes) -> Frame | None:
        """Return the frame in a message; None if it holds none."""
        try:
            return self._broker.seal.decode(payload, _frames)
        except msgspec.MsgspecError:
            return None


def _connect(url: str) -> redis.Redis:
    try:
        # No retries inside the client: the feed itself comes back in the next round, and counts the time.
        return redis.Redis.from_url(
            url, protocol=2, socket_timeout=1.0, socket_connect_timeout=1.0, retry=Retry(NoBackoff(), 0)
        )
    except ValueError:
        # The URL is not repeated: it may hold a password.
        raise ServiceError("the broker's URL cannot be understood; give redis://HOST:PORT") from None
