"""One live line on a terminal: how far the analysis is."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec
import redis

from chimbuko.calls.record import Silence, StreamHealth
from chimbuko.process.lifetime import log, write_error
from chimbuko.protocol.messages import Frame
from chimbuko.protocol.runbroker import Entries, RunBroker
from chimbuko.units import number_of
from chimbuko.visible import visible

MOST_FRAMES = 100
MOST_NAMED = 3

_frames = msgspec.msgpack.Decoder(Frame)


class Progress:
    """Follows the server's frames, and shows totals where standard error is a terminal."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._read_to = b"0"
        self._health: dict[tuple[int, int], StreamHealth] = {}
        self._is_shown = os.isatty(2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def show(self) -> None:
        """Show what is new, if anybody sees it."""
        if not self._is_shown:
            return
        entries: Entries = []
        with suppress(redis.RedisError):
            entries = self._broker.read(self._broker.keys.frames, self._read_to, MOST_FRAMES)
        self._read_to = entries[-1][0] if entries else self._read_to
        for frame in self._broker.seal.decoded(entries, _frames):
            for stream in frame.health:
                self._health[stream.program, stream.rank] = stream
        if entries:
            self._clear()
            write_error(visible(progress_line(self._health.values())))

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        say(text)

    def _clear(self) -> None:
        if self._is_shown:
            write_error("\r\x1b[K")


def say(text: str) -> None:
    """Notify the user of something at once, if anybody listens."""
    log(text)


def progress_line(streams: Collection[StreamHealth]) -> str:
    """Totals of all streams, and which of them are silent."""
    calls = sum(stream.calls for stream in streams)
    steps = sum(stream.steps for stream in streams)
    anomalies = sum(stream.anomalies for stream in streams)
    counts = number_of(len(streams), "ranks"), number_of(steps, "steps"), number_of(calls, "calls")
    line = " · ".join((*counts, f"▲ {number_of(anomalies, 'anomalies')}"))
    silent = [_silent(stream, stream.silence) for stream in streams if stream.silence is not None]
    return f"{line} · {len(silent)} silent: {', '.join(silent[:MOST_NAMED])}" if silent else line


def _silent(stream: StreamHealth, silence: Silence) -> str:
    function = silence.function.partition(" [")[0]
    return f"{stream.program}:{stream.rank} in {function}" if function else f"{stream.program}:{stream.rank}"
