"""What a stream's process cannot keep, reported to its agent at the head of their shared file.

For this there is always room: it is taken before the first step is read.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Int64Array
from chimbuko.core.calls.record import StreamHealth

SIZE_BYTES = 4096
_MOST_TRIES = 100


class Part(IntEnum):
    """What a stream may have to go without, what matters least first."""

    RECORDER = 0
    OPEN_CALLS = 1
    CHECKPOINT = 2
    FINDINGS = 3
    NAMES = 4
    STATISTICS = 5
    MODEL = 6
    JOURNAL = 7
    """Of the agent."""


class Shortfall(msgspec.Struct, frozen=True, array_like=True):
    """How a stream fares while there is no room for all of it."""

    health: StreamHealth
    """Its totals by now."""
    without: list[int]
    """``Part``: what it has had to go without so far."""


class _Cell(IntEnum):
    SEQUENCE = 0
    """Odd while the stream's process writes."""
    SIZE = 1


_encoder = msgspec.msgpack.Encoder()
_plights = msgspec.msgpack.Decoder(Shortfall)


class ShortfallCells:
    """One end; the stream's process writes, its agent reads.

    Parameters
    ----------
    memory
        u1[SIZE_BYTES], shared.
    """

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self._cells: Int64Array = memory[: 8 * len(_Cell)].view(np.int64)
        self._content = memory[8 * len(_Cell) :]

    def report(self, shortfall: Shortfall) -> None:
        """Replace what was reported before."""
        content = np.frombuffer(_encoder.encode(shortfall), np.uint8)
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
        """Another one each time that something is reported; 0 before that."""
        return int(self._cells[_Cell.SEQUENCE])

    def read(self) -> Shortfall | None:
        """What was reported last; None where nothing was, or where each attempt met a writer."""
        for _ in range(_MOST_TRIES):
            before = self.version
            content = self._content[: self._cells[_Cell.SIZE]].tobytes()
            if before and before % 2 == 0 and before == self.version:
                return _plights.decode(content)
        return None
