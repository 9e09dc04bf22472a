"""Outbox of a stream: what its process learned, and nobody took, telemetry too, in memory shared with its
agent.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.streamanalysis import Extent
from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.analysis.streamtelemetry import MOST_DESTINATIONS, MOST_ROWS, StreamTelemetry
from chimbuko.ad.handoff.sparsefile import SparseFile
from chimbuko.core.arrays import Int64Array, Rows, as_table, copied
from chimbuko.core.calls.pathtable import MOST_PATHS, PATH, forget_calls
from chimbuko.core.calls.record import StepCount
from chimbuko.core.calls.waiting import TimeKind
from chimbuko.core.kernels.paths import add_to_copy
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.core.statistics.schema import FLAGS, TableSchema
from chimbuko.core.traceschema import MAX_TIMERS
from chimbuko.runtime.protocol.telemetry import PACE, TRAFFIC

# Telemetry of a stream on its way from its process to its agent.


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


MOST_STEPS = 4096
"""Maximum number of steps that are counted while nobody takes them, 400 kB; then what was learned stays with
the stream's process.
"""

_STEP = np.dtype(
    [(name, np.int64) for name in ("step", "start_us", "end_us", "calls", "anomalies")]
    + [(name, np.float64) for name in ("severity_us", "highest_score")]
    + [(name, np.int64) for name in StepCount.__struct_fields__[-len(TimeKind) :]]
)


class OutboxCopy:
    """One copy of the outbox, at offset ``at`` of the shared file."""

    _COUNTS_BYTES = 24

    def __init__(self, file: SparseFile, at: int, schema: TableSchema) -> None:
        memory = file.memory
        self._file = file
        self._at = at
        self._schema = schema
        self._step_count = np.frombuffer(memory, np.int64, 1, at)
        at += self._step_count.nbytes
        self._next_step = np.frombuffer(memory, np.int64, 1, at)
        at += self._next_step.nbytes
        self._behind_timers = np.frombuffer(memory, np.int64, 1, at)
        """Index after the highest function that was ever in the copy: what lies there must not be touched."""
        at += self._behind_timers.nbytes
        self._steps = np.frombuffer(memory, _STEP, MOST_STEPS, at)
        at += self._steps.nbytes
        self._touched = np.frombuffer(memory, np.uint8, MAX_TIMERS, at)
        self._touched_at = at
        at += self._touched.nbytes
        self._has_room = np.zeros(MAX_TIMERS, np.bool_)
        """Whether this process has allocated the rows of each function."""
        self._table_at = at
        cells = MAX_TIMERS * schema.width
        self._table = np.frombuffer(memory, np.float64, cells, at).reshape(MAX_TIMERS, schema.width)
        at += self._table.nbytes
        self.paths = PathOutbox(memory, at)
        self.telemetry = TelemetryOutbox(memory, at + PathOutbox.SIZE_BYTES)

    @staticmethod
    def size_bytes(schema: TableSchema) -> int:
        """Return the size of one copy."""
        steps, functions = MOST_STEPS * _STEP.itemsize, MAX_TIMERS * (1 + 8 * schema.width)
        own = OutboxCopy._COUNTS_BYTES + steps + functions
        return -(-(own + PathOutbox.SIZE_BYTES + TelemetryOutbox.SIZE_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE

    def allocate(self) -> None:
        """Allocate what is read even while the copy is empty; raises ``OSError`` where there is no room."""
        self._allocate_steps(0)
        self.paths.allocate(self._file, 0)
        self.telemetry.allocate(self._file, 0, 0)

    def allocate_for(self, active: OutboxCopy, extent: Extent, steps: int) -> None:
        """Allocate the rows for what is in the ``active`` copy, and for what comes to it."""
        self._allocate_steps(active.steps + steps)
        for timers in (active.timers, extent.timers):
            self._allocate_timers(timers)
        self.paths.allocate(self._file, max(active.paths.count, extent.paths))
        traffic = max(active.telemetry.traffic, extent.traffic)
        self.telemetry.allocate(
            self._file, traffic, max(active.telemetry.flagged_steps, extent.flagged_steps)
        )

    def _allocate_timers(self, timers: npt.NDArray[np.int64]) -> None:
        if self._has_room[timers].all():
            return
        behind = max(int(self._behind_timers[0]), int(timers[-1]) + 1)
        self._file.allocate(self._touched_at, behind)
        self._behind_timers[0] = behind
        self._file.allocate_rows(self._table_at, self._table.itemsize * self._schema.width, timers)
        self._has_room[timers] = True

    def _allocate_steps(self, steps: int) -> None:
        self._file.allocate(self._at, self._COUNTS_BYTES + steps * _STEP.itemsize)

    @property
    def steps(self) -> int:
        """Number of steps in the copy."""
        return int(self._step_count[0])

    def takes(self, steps: int) -> bool:
        """Return whether ``steps`` more steps fit."""
        return self.steps + steps <= MOST_STEPS

    @property
    def next_step(self) -> int:
        """Number of the step after the last one that was analysed."""
        return int(self._next_step[0])

    @next_step.setter
    def next_step(self, step: int) -> None:
        self._next_step[0] = step

    @property
    def timers(self) -> npt.NDArray[np.int64]:
        """Return the functions that have statistics in the copy, int64[n], ascending."""
        return self._touched[: self._behind_timers[0]].nonzero()[0]

    def learned(self) -> Learned:
        """Return a copy of the statistics."""
        timers = self.timers
        return Learned(timers, self._table[timers])

    def step_counts(self, program: int, rank: int) -> list[StepCount]:
        """Return the steps in the copy."""
        return [StepCount(program, rank, *step) for step in self._steps[: self.steps].tolist()]

    def copy_from(self, other: OutboxCopy) -> None:
        """Become a copy of another one, except for the paths."""
        self._touched[self.timers] = 0
        timers = other.timers
        self._touched[timers] = 1
        self._table[timers] = other._table[timers]
        count = other.steps
        self._steps[:count] = other._steps[:count]
        self._step_count[0] = count
        self.telemetry.copy_from(other.telemetry)

    def add(self, learned: Learned, steps: Sequence[StepCount]) -> None:
        """Add what was learned in these steps."""
        is_known = self._touched[learned.timers] != 0
        fresh, known = learned.timers[~is_known], learned.timers[is_known]
        self._table[fresh] = learned.table[~is_known]
        self._schema.merge(self._table, known, learned.table[is_known])
        self._touched[fresh] = 1
        for number, step in enumerate(steps, self.steps):
            self._steps[number] = msgspec.structs.astuple(step)[2:]
        self._step_count[0] += len(steps)

    def remove(self, timers: npt.NDArray[np.int64], is_taken: npt.NDArray[np.bool_]) -> None:
        """Remove the statistics of taken functions, the flags of all of ``timers``, and all steps."""
        self._touched[timers[is_taken]] = 0
        flags_at = [self._schema.slices[name].start for name in FLAGS]
        self._table[np.ix_(timers[~is_taken], flags_at)] = self._schema.identity[flags_at]
        self._step_count[0] = 0
