"""Telemetry of a stream on its way from its process to its agent."""

from __future__ import annotations

import mmap

import numpy as np

from chimbuko.ad.analysis.streamtelemetry import MOST_DESTINATIONS, MOST_ROWS, StreamTelemetry
from chimbuko.ad.handoff.sparsefile import SparseFile
from chimbuko.core.arrays import Int64Array, Rows, as_table, copied
from chimbuko.core.calls.pathtable import MOST_PATHS, PATH, forget_calls
from chimbuko.core.kernels.paths import add_to_copy
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.core.traceschema import MAX_TIMERS
from chimbuko.runtime.protocol.telemetry import PACE, TRAFFIC


class TelemetryOutbox:
    """Telemetry of one stream in a file that its process and its agent map, under a lock of theirs.

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
        """Number of rows of traffic."""
        return int(self._counts[0])

    @property
    def flagged_steps(self) -> int:
        """Number of rows of flagged steps."""
        return int(self._counts[2])

    def allocate(self, file: SparseFile, traffic: int, flagged_steps: int) -> None:
        """Allocate so many rows, and all paces; raises ``OSError`` where there is no room."""
        file.allocate(self._at, self._counts.nbytes + traffic * TRAFFIC.itemsize)
        file.allocate(self._paces_at, self._paces.nbytes)
        file.allocate(self._flagged_at, flagged_steps * FLAGGED_STEPS.itemsize)

    def put(self, telemetry: StreamTelemetry) -> None:
        """Replace traffic and flagged steps by all that were not taken, and add paces."""
        self._traffic[: len(telemetry.traffic)] = telemetry.traffic
        self._flagged_steps[: len(telemetry.flagged_steps)] = telemetry.flagged_steps
        self._counts[[0, 2]] = len(telemetry.traffic), len(telemetry.flagged_steps)
        if len(telemetry.paces):
            paces = np.concatenate([self._paces[: self._counts[1]], telemetry.paces])[-MOST_ROWS:]
            self._paces[: len(paces)] = paces
            self._counts[1] = len(paces)

    def copy_from(self, other: TelemetryOutbox) -> None:
        """Become a copy of another one."""
        traffic, paces, flagged = other._counts.tolist()
        if traffic:
            self._traffic[:traffic] = other._traffic[:traffic]
        if paces:
            self._paces[:paces] = other._paces[:paces]
        if flagged:
            self._flagged_steps[:flagged] = other._flagged_steps[:flagged]
        self._counts[:] = other._counts

    def look(self) -> StreamTelemetry:
        """Return a copy of the contents."""
        traffic, paces, flagged = self._counts.tolist()
        return StreamTelemetry(
            self._traffic[:traffic].copy(), self._paces[:paces].copy(), self._flagged_steps[:flagged].copy()
        )

    def clear(self) -> None:
        """Clear the contents, which were taken."""
        self._counts[:] = 0


class PathOutbox:
    """Call paths of one stream in a file that its process and its agent map, under a lock of theirs.

    Calls are added up in it until they are taken.
    """

    SIZE_BYTES = 8 + MOST_PATHS * PATH.itemsize

    def __init__(self, memory: mmap.mmap, at: int) -> None:
        self._at = at
        self._count: Int64Array = np.frombuffer(memory, np.int64, 1, at)
        self._rows = as_table(np.frombuffer(memory, PATH, MOST_PATHS, at + 8))

    @property
    def count(self) -> int:
        """Number of paths that have a row."""
        return int(self._count[0])

    def allocate(self, file: SparseFile, count: int) -> None:
        """Allocate so many rows; raises ``OSError`` where there is no room."""
        file.allocate(self._at, 8 + count * PATH.itemsize)

    def put(self, before: PathOutbox, rows: Rows) -> None:
        """Replace the content by a newer copy, with more calls of its paths, and new paths at the end."""
        add_to_copy(before._rows, before.count, rows, self._rows)
        self._count[0] = len(rows)

    def look(self) -> Rows:
        """Return a copy of the contents."""
        return copied(self._rows[: self._count[0]])

    def clear(self) -> None:
        """Clear the calls, which were taken; the paths keep their rows."""
        forget_calls(self._rows[: self._count[0]])
