"""What a stream tells for the views, on its way from its process to its agent."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np

from chimbuko.ad.paces import MOST_ROWS
from chimbuko.ad.traffic import MOST_DESTINATIONS
from chimbuko.tables import Int64Array
from chimbuko.views import PACE, TRAFFIC, Rows


@dataclass(frozen=True)
class StreamViews:
    """Of one stream."""

    traffic: Rows
    """``TRAFFIC``: what was sent and not taken."""
    paces: Rows
    """``PACE`` of windows that have ended; functions are the stream's timer ids."""

    @classmethod
    def none(cls) -> StreamViews:
        """Nothing."""
        return cls(np.empty(0, TRAFFIC), np.empty(0, PACE))

    def __bool__(self) -> bool:
        return bool(len(self.traffic) or len(self.paces))


class ViewOutbox:
    """Views of one stream in a file that its process and its agent map; they have a lock for it.

    Nothing in it grows with time: traffic is added up by the process, and of paces the newest are kept.
    """

    SIZE_BYTES = 16 + MOST_DESTINATIONS * TRAFFIC.itemsize + MOST_ROWS * PACE.itemsize

    def __init__(self, memory: mmap.mmap, at: int) -> None:
        self._counts: Int64Array = np.frombuffer(memory, np.int64, 2, at)
        at += self._counts.nbytes
        self._traffic: Rows = np.frombuffer(memory, TRAFFIC, MOST_DESTINATIONS, at)
        at += self._traffic.nbytes
        self._paces: Rows = np.frombuffer(memory, PACE, MOST_ROWS, at)

    def put(self, views: StreamViews) -> None:
        """All traffic that was not taken, in place of what is there, and paces that come to it."""
        self._traffic[: len(views.traffic)] = views.traffic
        self._counts[0] = len(views.traffic)
        if len(views.paces):
            paces = np.concatenate([self._paces[: self._counts[1]], views.paces])[-MOST_ROWS:]
            self._paces[: len(paces)] = paces
            self._counts[1] = len(paces)

    def look(self) -> StreamViews:
        """A copy of what is there."""
        traffic, paces = self._counts.tolist()
        return StreamViews(self._traffic[:traffic].copy(), self._paces[:paces].copy())

    def clear(self) -> None:
        """All was taken."""
        self._counts[:] = 0
