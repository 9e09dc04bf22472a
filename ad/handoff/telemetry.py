"""What a stream tells for the views, on its way from its process to its agent."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field

import numpy as np

from chimbuko.ad.analysis.rankspeed import MOST_ROWS
from chimbuko.ad.analysis.traffic import MOST_DESTINATIONS
from chimbuko.ad.calls.kernels.stack import MAX_TIMERS
from chimbuko.ad.handoff.sparsefile import SparseFile
from chimbuko.protocol.telemetry import FLAGGED_STEPS, PACE, TRAFFIC, Rows
from chimbuko.statistics import flaggedsteps
from chimbuko.statistics.schema import Int64Array


@dataclass(frozen=True)
class StreamViews:
    """Of one stream."""

    traffic: Rows
    """``TRAFFIC``: what was sent and not taken."""
    paces: Rows
    """``PACE`` of windows that have ended; functions are the stream's timer ids."""
    flagged_steps: Rows = field(default_factory=lambda: flaggedsteps.empty(0))
    """``FLAGGED_STEPS``: what was flagged and not taken; functions are timer ids."""

    @classmethod
    def none(cls) -> StreamViews:
        """Nothing."""
        return cls(np.empty(0, TRAFFIC), np.empty(0, PACE))

    def __bool__(self) -> bool:
        return bool(len(self.traffic) or len(self.paces) or len(self.flagged_steps))


class ViewOutbox:
    """Views of one stream in a file that its process and its agent map; they have a lock for it.

    Nothing in it grows with time: traffic and flagged steps are added up by the process, and of paces the
    newest are kept.
    """

    SIZE_BYTES = (
        24
        + MOST_DESTINATIONS * TRAFFIC.itemsize
        + MOST_ROWS * PACE.itemsize
        + MAX_TIMERS * FLAGGED_STEPS.itemsize
    )

    def __init__(self, memory: mmap.mmap, at: int) -> None:
        self._at = at
        self._counts: Int64Array = np.frombuffer(memory, np.int64, 3, at)
        at += self._counts.nbytes
        self._traffic: Rows = np.frombuffer(memory, TRAFFIC, MOST_DESTINATIONS, at)
        at += self._traffic.nbytes
        self._paces: Rows = np.frombuffer(memory, PACE, MOST_ROWS, at)
        self._paces_at = at
        at += self._paces.nbytes
        self._flagged_at = at
        self._flagged_steps: Rows = np.frombuffer(memory, FLAGGED_STEPS, MAX_TIMERS, at)

    @property
    def traffic(self) -> int:
        """How many rows of traffic are there."""
        return int(self._counts[0])

    @property
    def flagged_steps(self) -> int:
        """How many rows of flagged steps are there."""
        return int(self._counts[2])

    def allocate(self, file: SparseFile, traffic: int, flagged_steps: int) -> None:
        """Make sure of the room for so many rows, and all paces; raises ``OSError`` where there is none."""
        file.allocate(self._at, self._counts.nbytes + traffic * TRAFFIC.itemsize)
        file.allocate(self._paces_at, self._paces.nbytes)
        file.allocate(self._flagged_at, flagged_steps * FLAGGED_STEPS.itemsize)

    def put(self, views: StreamViews) -> None:
        """All traffic and flagged steps that were not taken, in place of what is there, and paces that come
        to it."""
        self._traffic[: len(views.traffic)] = views.traffic
        self._flagged_steps[: len(views.flagged_steps)] = views.flagged_steps
        self._counts[[0, 2]] = len(views.traffic), len(views.flagged_steps)
        if len(views.paces):
            paces = np.concatenate([self._paces[: self._counts[1]], views.paces])[-MOST_ROWS:]
            self._paces[: len(paces)] = paces
            self._counts[1] = len(paces)

    def copy_from(self, other: ViewOutbox) -> None:
        """Become a copy of the other one."""
        traffic, paces, flagged = other._counts.tolist()
        if traffic:
            self._traffic[:traffic] = other._traffic[:traffic]
        if paces:
            self._paces[:paces] = other._paces[:paces]
        if flagged:
            self._flagged_steps[:flagged] = other._flagged_steps[:flagged]
        self._counts[:] = other._counts

    def look(self) -> StreamViews:
        """A copy of what is there."""
        traffic, paces, flagged = self._counts.tolist()
        return StreamViews(
            self._traffic[:traffic].copy(), self._paces[:paces].copy(), self._flagged_steps[:flagged].copy()
        )

    def clear(self) -> None:
        """All was taken."""
        self._counts[:] = 0
