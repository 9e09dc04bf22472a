"""Progress of the analysis: one live line on a terminal, and elsewhere a line now and then."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Self

import msgspec
import redis

from chimbuko.core.calls.functionnames import shown_name
from chimbuko.core.calls.record import Silence, StreamHealth
from chimbuko.core.names import visible
from chimbuko.core.units import number_of
from chimbuko.runtime.process.lifetime import log, write_error
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.runtime.protocol.runbroker import Entries, RunBroker

MOST_FRAMES = 100
MOST_NAMED = 3
FIRST_LINE_S = 60.0
"""Seconds until the first line where there is no terminal; the next one comes when twice the time has gone
by: a job of a day has a dozen.
"""

_frames = msgspec.msgpack.Decoder(Frame)


class Progress:
    """Follows the server's frames, and shows totals: always on a terminal, else now and then."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._read_to = b"0"
        self._health: dict[tuple[int, int], StreamHealth] = {}
        self._is_terminal = os.isatty(2)
        self._began_s = monotonic()
        self._next_line_s = FIRST_LINE_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def show(self) -> None:
        """Show what is new, where it is time for it."""
        entries: Entries = []
        with suppress(redis.RedisError):
            entries = self._broker.read(self._broker.keys.frames, self._read_to, MOST_FRAMES)
        self._read_to = entries[-1][0] if entries else self._read_to
        for frame in self._broker.seal.decoded(entries, _frames):
            for stream in frame.health:
                self._health[stream.program, stream.rank] = stream
        elapsed_s = monotonic() - self._began_s
        line = f"{elapsed_text(elapsed_s)} · {progress_line(self._health.values())}"
        if self._is_terminal and entries:
            self._clear()
            write_error(visible(line))
        elif not self._is_terminal and elapsed_s >= self._next_line_s:
            self._next_line_s = 2 * elapsed_s
            say(line)

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        say(text)

    def _clear(self) -> None:
        if self._is_terminal:
            write_error("\r\x1b[K")


def say(text: str) -> None:
    """Notify the user of something at once, if anybody listens."""
    log(text)


def elapsed_text(elapsed_s: float) -> str:
    """As clocks show it: ``0:42``, ``12:05``, ``1:02:03``."""
    minutes, seconds = divmod(int(elapsed_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


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
    function = shown_name(silence.function)
    return f"{stream.program}:{stream.rank} in {function}" if function else f"{stream.program}:{stream.rank}"
