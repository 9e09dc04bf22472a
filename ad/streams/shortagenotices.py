"""Notices to the user about streams of this node that go short while there is no room in ``$TMPDIR``, or no
memory.

They go over the broker, and never through a file: that would be in the full folder.
"""

from __future__ import annotations

import time
from pathlib import Path
from queue import Empty, SimpleQueue

from chimbuko.ad.handoff.shortage import WORDS, StreamPart
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.runbroker import RunBroker

GATHER_S = 0.5
"""Time in seconds for which notices are gathered: all streams of a node are short of room together, and
reported in one line.
"""
MOST_NAMED = 8


class ShortageNotices:
    """Notices of what is missing, from any thread; each is given once.

    Parameters
    ----------
    folder, node
        ``$TMPDIR``, and the node that it is on.
    """

    def __init__(self, broker: RunBroker, folder: Path, node: str) -> None:
        self._broker = broker
        self._where = f"no room in $TMPDIR ({folder.resolve()} on {node})"
        self._news: SimpleQueue[tuple[str, str]] = SimpleQueue()
        self._said: set[tuple[str, str]] = set()
        self._gathered: dict[str, list[str]] = {}
        self._due_s = 0.0

    def without(self, part: StreamPart, stream: str) -> None:
        """Note that a stream goes without a part, now or for good."""
        self._note(f"{self._where}: {{}} without {WORDS[part]}", stream)

    def unread(self, stream: str) -> None:
        """Note that a stream is not read, as there is no room for its folder."""
        self._note(f"{self._where}: {{}} not read until there is some", stream)

    def unreadable(self, stream: str) -> None:
        """Note that a stream is not read any further, as there is no memory."""
        text = "no memory left for {}, read no further: raise the limit on it (ulimit -v), or use more nodes"
        self._note(text, stream)

    def lost_reports(self, number: int) -> None:
        """Note that reports of overdue calls are lost."""
        self._note(f"{self._where}: {{}} reports of overdue calls are lost", str(number))

    def report(self, is_last: bool) -> None:
        """Send the notices that have gathered; raises ``redis.RedisError`` where the broker is away."""
        self._gather()
        if not self._gathered or (time.monotonic() < self._due_s and not is_last):
            return
        for text, streams in list(self._gathered.items()):
            more = f" and {len(streams) - MOST_NAMED} more" if len(streams) > MOST_NAMED else ""
            line = text.format(", ".join(streams[:MOST_NAMED]) + more)
            self._broker.notify_user(line)
            del self._gathered[text]

    def _gather(self) -> None:
        while True:
            try:
                news = self._news.get_nowait()
            except Empty:
                return
            self._due_s = self._due_s if self._gathered else time.monotonic() + GATHER_S
            self._gathered.setdefault(news[0], []).append(news[1])

    def _note(self, text: str, who: str) -> None:
        if (text, who) not in self._said:
            self._said.add((text, who))
            log(text.format(who))
            self._news.put((text, who))
