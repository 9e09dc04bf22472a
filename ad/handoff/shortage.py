"""Storage shortage of a stream: what its process goes without while there is no room in ``$TMPDIR``, and
how the user is told of it.

The report stands at the head of their shared file, where there is always room for it: that is taken before
the first step is read.
"""

from __future__ import annotations

import time
from enum import IntEnum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Int64Array
from chimbuko.core.calls.record import StreamHealth
from chimbuko.runtime.process.lifetime import log

if TYPE_CHECKING:
    from chimbuko.runtime.protocol.runbroker import RunBroker

SHORTAGE_BYTES = 4096
_MOST_TRIES = 100


class StreamPart(IntEnum):
    """Parts of a stream's state that it may have to go without, what matters least first."""

    RECORDER = 0
    OPEN_CALLS = 1
    CHECKPOINT = 2
    FINDINGS = 3
    NAMES = 4
    STATISTICS = 5
    MODEL = 6
    JOURNAL = 7
    """Log of the agent's last deltas."""


class StorageShortage(msgspec.Struct, frozen=True, array_like=True):
    """Report of a stream for which there is not enough storage."""

    health: StreamHealth
    """Totals of the stream by now."""
    without: list[int]
    """Numbers of ``StreamPart``: what the stream has had to go without so far."""


class _Cell(IntEnum):
    SEQUENCE = 0
    """Sequence number, odd while the stream's process writes."""
    SIZE = 1


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(StorageShortage)


class ShortageCells:
    """One end of the report; the stream's process writes, its agent reads.

    Parameters
    ----------
    memory
        Shared memory, uint8[SHORTAGE_BYTES].
    """

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self._cells: Int64Array = memory[: 8 * len(_Cell)].view(np.int64)
        self._content = memory[8 * len(_Cell) :]

    def report(self, shortage: StorageShortage) -> None:
        """Replace the last report."""
        content = np.frombuffer(_encoder.encode(shortage), np.uint8)
        if len(content) > len(self._content):
            # Only damaged streams have so many kinds of losses; it is reported when there is room.
            return
        # A process that was killed while it wrote has left it odd.
        self._cells[_Cell.SEQUENCE] |= 1
        self._content[: len(content)] = content
        self._cells[_Cell.SIZE] = len(content)
        self._cells[_Cell.SEQUENCE] += 1

    @property
    def version(self) -> int:
        """Version of the report, different after each one; 0 before the first."""
        return int(self._cells[_Cell.SEQUENCE])

    def read(self) -> StorageShortage | None:
        """Return the last report; None if there is none, or where each attempt met a writer."""
        for _ in range(_MOST_TRIES):
            before = self.version
            content = self._content[: self._cells[_Cell.SIZE]].tobytes()
            if before and before % 2 == 0 and before == self.version:
                return _decoder.decode(content)
        return None


WORDS = {
    StreamPart.RECORDER: "flight recorder; 'chimbuko runs recall' finds nothing",
    StreamPart.OPEN_CALLS: "list of open calls; overdue ones are not seen",
    StreamPart.CHECKPOINT: "checkpoint; a reader that takes over begins behind a gap",
    StreamPart.FINDINGS: "findings; they wait in memory, the most severe if they are many",
    StreamPart.NAMES: "names of functions; steps wait until there is",
    StreamPart.STATISTICS: "statistics; steps wait until there is",
    StreamPart.JOURNAL: "copy of its last statistics; killed now, it loses them",
    StreamPart.MODEL: "model of new functions; they are judged by the newest calls of the rank itself",
}
"""Name of each part, and what it means to be without."""


class ShortageReporter:
    """Account of what is missing, reported to the stream's agent, which tells the user.

    Parameters
    ----------
    cells
        Memory through which the agent gets the reports.
    """

    def __init__(self, cells: ShortageCells) -> None:
        self._cells = cells
        self._without: set[StreamPart] = set()
        self._blocked_at_s: float | None = None

    def note(self, part: StreamPart) -> None:
        """Note that there is no room for a part."""
        self._without.add(part)

    def report(self, health: StreamHealth) -> None:
        """Report to the agent how the stream fares, if anything is or was missing."""
        if self._without:
            self._cells.report(StorageShortage(health, sorted(self._without)))

    def block(self, part: StreamPart) -> None:
        """Note that nothing can be committed, as there is no room for a part."""
        self.note(part)
        if self._blocked_at_s is None:
            self._blocked_at_s = time.monotonic()

    def unblock(self) -> None:
        """Note that there is room for a commit."""
        self._blocked_at_s = None

    @property
    def is_blocking(self) -> bool:
        """Whether nothing can be committed."""
        return self._blocked_at_s is not None

    @property
    def blocked_s(self) -> float:
        """Time in seconds for which nothing could be committed."""
        return 0.0 if self._blocked_at_s is None else time.monotonic() - self._blocked_at_s


# Notices to the user about streams of this node that go short while there is no room in ``$TMPDIR``, or no
# memory.
#
# They go over the broker, and never through a file: that would be in the full folder.


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
