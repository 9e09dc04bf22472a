"""Exchange of statistics between a stream's process and its agent, through one shared file.

The stream's process leaves what it learned in the outbox, where deltas merge in place, so that it
never grows with time; the agent takes it away and puts the global model into the inbox. Neither
waits for the other: each only tries the lock, which the kernel frees when its holder dies.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from enum import IntEnum
from pathlib import Path

import numpy as np

from chimbuko.ad.analysis import StreamAnalysis
from chimbuko.ad.kernels.stack import MAX_TIMERS
from chimbuko.ad.statistics import Learned
from chimbuko.messages import NO_EPOCH
from chimbuko.moments import Float64Array
from chimbuko.tables import TableSchema

_HEADER_CELLS = 64


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
    """

    def __init__(self, path: Path, schema: TableSchema) -> None:
        self._schema = schema
        rows, width = MAX_TIMERS, schema.width
        size = 8 * _HEADER_CELLS + rows + 2 * 8 * rows * width
        is_new = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._file, size)
        self._memory = mmap.mmap(self._file, size)
        self._cells = np.frombuffer(self._memory, np.int64, _HEADER_CELLS)
        at = 8 * _HEADER_CELLS
        self._touched = np.frombuffer(self._memory, np.uint8, rows, at)
        at += rows
        self._outbox = np.frombuffer(self._memory, np.float64, rows * width, at).reshape(rows, width)
        at += 8 * rows * width
        self._inbox = np.frombuffer(self._memory, np.float64, rows * width, at).reshape(rows, width)
        self._seen_version = 0
        if is_new:
            self._cells[[Cell.MODEL_GENERATION, Cell.MODEL_EPOCH, Cell.CLOSED_EPOCH]] = NO_EPOCH

    def __getitem__(self, cell: Cell) -> int:
        return int(self._cells[cell])

    def __setitem__(self, cell: Cell, value: int) -> None:
        self._cells[cell] = value

    def close(self) -> None:
        """Let go of the file."""
        # The mapping itself goes with the last array that refers to it.
        os.close(self._file)

    def exchange(self, analysis: StreamAnalysis) -> bool:
        """For the stream's process: leave what was learned and take a newer model.

        False if the lock was held.
        """
        if not self._try_lock():
            return False
        learned = analysis.hand_out(self[Cell.GENERATION])
        self[Cell.IS_WRITING] = 1
        is_known = self._touched[learned.timers] != 0
        fresh, known = learned.timers[~is_known], learned.timers[is_known]
        self._outbox[fresh] = learned.table[~is_known]
        self._schema.merge(self._outbox, known, learned.table[is_known])
        self._touched[fresh] = 1
        self[Cell.IS_WRITING] = 0
        if self[Cell.MODEL_VERSION] != self._seen_version:
            self._seen_version = self[Cell.MODEL_VERSION]
            model = self._inbox[: self[Cell.MODEL_ROWS]].copy()
            analysis.take_model(model, self[Cell.MODEL_GENERATION], self._seen_version)
        self._unlock()
        return True

    def take(self) -> tuple[int, Learned] | None:
        """For the agent: what the stream learned and its generation; None if the lock was held."""
        if not self._try_lock():
            return None
        generation = self[Cell.GENERATION]
        timers = np.flatnonzero(self._touched)
        learned = Learned(timers, self._outbox[timers].copy())
        if self[Cell.IS_WRITING]:
            learned = Learned(timers[:0], learned.table[:0])
        self._touched[timers] = 0
        self[Cell.GENERATION] = generation + 1
        self._unlock()
        return generation, learned

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

    def _try_lock(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN)
