"""Looks at the threads of a stream's process, handed from the node's sampler to the stream's process.

What a thread did at a moment is known at once, and which call that was only when the stream gives its step:
so the looks wait in a ring, in one shared file. The agent writes, the stream's process reads, neither waits.
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from pathlib import Path

import numpy as np

from chimbuko.ad.calls.callpaths import LOOK
from chimbuko.ad.handoff.sparsefile import allocated
from chimbuko.core.arrays import Rows

LOOKS = "looks"
"""Name of the file in a stream's folder."""
MOST_LOOKS = 4096
"""Number of looks that are kept: 80 s of one thread, or 5 s of sixteen; 100 kB."""
_HEADER_CELLS = 8
_SIZE_BYTES = 8 * _HEADER_CELLS + MOST_LOOKS * LOOK.itemsize


class _Cell(IntEnum):
    COUNT = 0
    """Number of looks so far."""


class LooksFile:
    """One end of the file of looks; where there is no room for that, each end is alone, and the reader sees
    no look.
    """

    def __init__(self, path: Path) -> None:
        try:
            memory = allocated(path, _SIZE_BYTES)
        except OSError:
            memory = mmap.mmap(-1, _SIZE_BYTES)
        self._cells = np.frombuffer(memory, np.int64, _HEADER_CELLS)
        self._looks = np.frombuffer(memory, LOOK, MOST_LOOKS, 8 * _HEADER_CELLS)
        self._taken = int(self._cells[_Cell.COUNT])
        """Number of looks that were taken, or are older than this end."""

    def put(self, time_us: int, length_us: int, thread: int, is_asleep: bool) -> None:
        """Add a look, as the agent; fields as in ``LOOK``."""
        count = int(self._cells[_Cell.COUNT])
        self._looks[count % MOST_LOOKS] = time_us, length_us, thread, is_asleep
        self._cells[_Cell.COUNT] = count + 1

    def take(self, until_us: int) -> Rows:
        """Return, as the stream's process, the looks until a time that were not taken before, by time."""
        count = int(self._cells[_Cell.COUNT])
        first = max(self._taken, count - MOST_LOOKS)
        looks = self._looks[np.arange(first, count) % MOST_LOOKS]
        taken = int(np.searchsorted(looks["time_us"], np.uint64(until_us), "right"))
        self._taken = first + taken
        return looks[:taken]
