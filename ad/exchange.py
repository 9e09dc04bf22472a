"""Exchange of statistics between a stream's process and its agent, through one shared file.

The stream's process leaves what it learned in the outbox, where deltas merge in place, so that it
never grows with time; the agent takes it away and puts the global model into the inbox. Neither
waits for the other: each only tries the lock, which the kernel frees when its holder dies.

What the agent holds back stays in the outbox: it outlives the agent.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis import StreamAnalysis
from chimbuko.ad.kernels.stack import MAX_TIMERS
from chimbuko.ad.paths import PathOutbox
from chimbuko.ad.statistics import Learned
from chimbuko.ad.views import StreamViews, ViewOutbox
from chimbuko.messages import NO_EPOCH
from chimbuko.moments import Float64Array
from chimbuko.paths import Rows
from chimbuko.records import StepCount
from chimbuko.tables import FLAGS, TableSchema

_HEADER_CELLS = 64
MOST_STEPS = 4096
"""Steps counted while nobody takes them, 200 kB; then what was learned stays with the stream's process."""

_STEP = np.dtype(
    [(name, np.int64) for name in ("step", "start_us", "end_us", "calls", "anomalies")]
    + [(name, np.float64) for name in ("severity_us", "highest_score")]
)


class Cell(IntEnum):
    """Numbers at the head of the file. Cells that are written without the lock have one writer each."""

    GENERATION = 0
    """Of the outbox: how often the agent has taken it."""
    IS_WRITING = 1
    """1 while the outbox is being written: what a killed process left half written is thrown away."""
    MODEL_VERSION = 2
    MODEL_GENERATION = 3
    """Last generation of the outbox that the model in the inbox contains."""
    MODEL_EPOCH = 4
    """Last epoch that all streams have closed, as of the model in the inbox."""
    MODEL_ROWS = 5
    CLOSED_EPOCH = 6
    """Last epoch that this stream has closed (without the lock)."""
    HEARTBEAT = 7
    """Counts each time the stream was drained (without the lock)."""
    PHASE = 8
    """A ``Phase`` (without the lock)."""
    NAMES_VERSION = 9
    """Counts the versions of the stream's names file (without the lock)."""
    STEPS = 10
    """Steps in the outbox."""
    TAKEN_STEPS = 11
    """Steps that the agent has taken from this outbox, and from those of earlier processes of the stream."""


@dataclass(frozen=True)
class Outbox:
    """What a stream's process left, and nobody took."""

    generation: int
    learned: Learned
    steps: list[StepCount]
    """In which it was learned."""
    views: StreamViews
    paths: Rows
    """``PATH``; functions are the stream's timer ids."""


class Phase(IntEnum):
    """What the stream's process is doing."""

    OPENING = 0
    READING = 1
    """At work on a step; the stream is not drained meanwhile."""
    IDLE = 2
    """Waiting for the stream's next step."""
    WAITING = 3
    """For other streams, in lockstep."""
    ENDED = 4
    BROKEN = 5
    """The stream stopped without an end: its writer died."""


class ExchangeBox:
    """One end of the exchange; both ends map the same file.

    The file is sparse: 0.6 GB of address space, but only pages of timers in use take memory.

    Parameters
    ----------
    program, rank
        Of the stream.
    """

    def __init__(self, path: Path, schema: TableSchema, program: int = 0, rank: int = 0) -> None:
        self._schema = schema
        self._stream = program, rank
        self._flags_at = [schema.slices[name].start for name in FLAGS]
        rows, width = MAX_TIMERS, schema.width
        size = 8 * _HEADER_CELLS + MOST_STEPS * _STEP.itemsize + rows + 2 * 8 * rows * width
        size += ViewOutbox.SIZE_BYTES + PathOutbox.SIZE_BYTES
        is_new = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._file, size)
        self._memory = mmap.mmap(self._file, size)
        self._cells = np.frombuffer(self._memory, np.int64, _HEADER_CELLS)
        at = 8 * _HEADER_CELLS
        self._steps = np.frombuffer(self._memory, _STEP, MOST_STEPS, at)
        at += MOST_STEPS * _STEP.itemsize
        self._touched = np.frombuffer(self._memory, np.uint8, rows, at)
        at += rows
        self._outbox = np.frombuffer(self._memory, np.float64, rows * width, at).reshape(rows, width)
        at += 8 * rows * width
        self._inbox = np.frombuffer(self._memory, np.float64, rows * width, at).reshape(rows, width)
        at += 8 * rows * width
        self._paths = PathOutbox(self._memory, at)
        self._views = ViewOutbox(self._memory, at + PathOutbox.SIZE_BYTES)
        self._seen_version = 0
        if is_new:
            self._cells[[Cell.MODEL_GENERATION, Cell.MODEL_EPOCH, Cell.CLOSED_EPOCH]] = NO_EPOCH

    def __getitem__(self, cell: Cell) -> int:
        return int(self._cells[cell])

    def __setitem__(self, cell: Cell, value: int) -> None:
        self._cells[cell] = value

    def close(self) -> None:
        """Let go of the file, and of the lock."""
        # The mapping itself goes with the last array that refers to it.
        os.close(self._file)

    def exchange(self, analysis: StreamAnalysis, steps: Sequence[StepCount]) -> bool:
        """For the stream's process: leave what was learned in these steps and take a newer model.

        False if the lock was held, or if the outbox is full: nothing was done.
        """
        if self[Cell.STEPS] + len(steps) > MOST_STEPS or not self._try_lock():
            return False
        learned = analysis.hand_out(self[Cell.GENERATION])
        self[Cell.IS_WRITING] = 1
        is_known = self._touched[learned.timers] != 0
        fresh, known = learned.timers[~is_known], learned.timers[is_known]
        self._outbox[fresh] = learned.table[~is_known]
        self._schema.merge(self._outbox, known, learned.table[is_known])
        self._touched[fresh] = 1
        for number, step in enumerate(steps, self[Cell.STEPS]):
            self._steps[number] = msgspec.structs.astuple(step)[2:]
        self[Cell.STEPS] += len(steps)
        self._views.put(analysis.hand_out_views(self[Cell.GENERATION]))
        self._paths.put(analysis.hand_out_paths())
        self[Cell.IS_WRITING] = 0
        if self[Cell.MODEL_VERSION] != self._seen_version:
            self._seen_version = self[Cell.MODEL_VERSION]
            model = self._inbox[: self[Cell.MODEL_ROWS]].copy()
            analysis.take_model(model, self[Cell.MODEL_GENERATION], self._seen_version)
        self._unlock()
        return True

    def look(self) -> Outbox | None:
        """For the agent: what stands in the outbox, which stays locked; None if it was already."""
        if not self._try_lock():
            return None
        timers = np.flatnonzero(self._touched)
        steps = [StepCount(*self._stream, *step) for step in self._steps[: self[Cell.STEPS]].tolist()]
        if self[Cell.IS_WRITING]:
            self._touched[timers] = 0
            self._views.clear()
            self._paths.clear()
            self[Cell.STEPS] = self[Cell.IS_WRITING] = 0
            timers, steps = timers[:0], []
        learned = Learned(timers, self._outbox[timers])
        return Outbox(self[Cell.GENERATION], learned, steps, self._views.look(), self._paths.look())

    def remove(self, outbox: Outbox, is_taken: npt.NDArray[np.bool_], has_paths: bool) -> None:
        """For the agent, after ``look``: these timers' rows are taken, with all steps, flags and views, and
        perhaps the call paths.

        Doing it again, after a death in its middle, does no harm: the generation ends last.
        """
        timers = outbox.learned.timers
        self._touched[timers[is_taken]] = 0
        self._outbox[np.ix_(timers[~is_taken], self._flags_at)] = self._schema.empty(1)[:, self._flags_at]
        self[Cell.TAKEN_STEPS] += self[Cell.STEPS]
        self[Cell.STEPS] = 0
        self._views.clear()
        if has_paths:
            self._paths.clear()
        self[Cell.GENERATION] = outbox.generation + 1

    def release(self) -> None:
        """For the agent, after ``look``: the stream's process may use it again."""
        self._unlock()

    def take(self) -> Outbox | None:
        """For the agent: everything in the outbox, which is empty then; None if the lock was held."""
        outbox = self.look()
        if outbox is not None:
            self.remove(outbox, np.ones(len(outbox.learned.timers), np.bool_), has_paths=True)
            self.release()
        return outbox

    def put_model(self, version: int, epoch: int, generation: int, table: Float64Array) -> bool:
        """For the agent: give the stream a newer model, rows by its timer ids; False if the lock was held."""
        if not self._try_lock():
            return False
        self._inbox[: len(table)] = table
        self[Cell.MODEL_ROWS] = len(table)
        self[Cell.MODEL_GENERATION] = generation
        self[Cell.MODEL_EPOCH] = epoch
        self[Cell.MODEL_VERSION] = version
        self._unlock()
        return True

    @property
    def learned_steps(self) -> int:
        """Steps of the stream whose statistics the agent has taken, or can take."""
        return self[Cell.TAKEN_STEPS] + (0 if self[Cell.IS_WRITING] else self[Cell.STEPS])

    def _try_lock(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN)
