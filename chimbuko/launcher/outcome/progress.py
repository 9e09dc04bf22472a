"""Progress of the analysis: one live line on a terminal, and elsewhere a line now and then."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from time import monotonic
from types import TracebackType
from typing import Self

from chimbuko.core.calls.functionnames import shown_name
from chimbuko.core.calls.record import Silence, StreamHealth
from chimbuko.core.names import visible
from chimbuko.core.units import number_of
from chimbuko.runtime.process.lifetime import log, write_error

MOST_NAMED = 3
FIRST_LINE_S = 60.0
"""Seconds until the first line where there is no terminal; the next one comes when twice the time has gone
by: a job of a day has a dozen.
"""


class Progress:
    """Shows totals of the streams: always on a terminal, else now and then.

    Parameters
    ----------
    news
        Returns the health of the streams of which something is new since its last call; None if there was
        no news.
    """

    def __init__(self, news: Callable[[], Sequence[StreamHealth] | None]) -> None:
        self._news = news
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
        news = self._news()
        self._health |= {(stream.program, stream.rank): stream for stream in news or ()}
        elapsed_s = monotonic() - self._began_s
        line = f"{elapsed_text(elapsed_s)} · {progress_line(self._health.values())}"
        if self._is_terminal and news is not None:
            self._clear()
            write_error(visible(line))
        elif not self._is_terminal and elapsed_s >= self._next_line_s:
            self._next_line_s = 2 * elapsed_s
            say(line)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._clear()
        say(text)

    def _clear(self) -> None:
        if self._is_terminal:
            write_error("\r\x1b[K")


def say(text: str) -> None:
    """Notify the user of something at once, if anybody listens."""
    log(text)


def elapsed_text(elapsed_s: float) -> str:
    """Return a duration as clocks show it: ``0:42``, ``12:05``, ``1:02:03``."""
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
