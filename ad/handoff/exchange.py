"""Exchange of statistics between a stream's process and its agent, through one shared file.

The stream's process leaves what it learned in the outbox, where deltas merge, so that it never grows with
time; the agent takes it away and puts the global model into the inbox. Neither waits for the other: each only
tries the lock, which the kernel frees when its holder dies.

There are two copies of the outbox. The stream's process fills the one that is not in use, saves its own state
beside it (``ad.streams.streamcheckpoint``), and then makes it the one in use by writing one number:
killed at any moment, it leaves an outbox and a state that belong together. What the agent holds back stays in
the outbox: it outlives the agent.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis
from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.analysis.streamtelemetry import StreamTelemetry
from chimbuko.ad.handoff.notifiers import MappedSemaphore
from chimbuko.ad.handoff.outbox import OutboxCopy
from chimbuko.ad.handoff.shortage import SHORTAGE_BYTES as SHORTAGE_BYTES
from chimbuko.ad.handoff.shortage import ShortageCells
from chimbuko.ad.handoff.sparsefile import SparseFile
from chimbuko.core.arrays import Float64Array, Int64Array, Rows
from chimbuko.core.buckets import BUCKETS
from chimbuko.core.calls.record import StepCount
from chimbuko.core.statistics.schema import TableSchema
from chimbuko.core.traceschema import MAX_TIMERS
from chimbuko.runtime.protocol.messages import NO_EPOCH

_HEADER_CELLS = 64
_OFFERED_AT = 1024
_HEADER_BYTES = mmap.PAGESIZE + SHORTAGE_BYTES


class Cell(IntEnum):
    """Numbers at the head of the file. Cells that are written without the lock have one writer each."""

    GENERATION = 0
    """Generation of the outbox: how often the agent has taken it."""
    ACTIVE = 1
    """Index of the copy of the outbox, and of the checkpoint, that is in use."""
    MODEL_VERSION = 2
    """Version of the model in the inbox; 0 while there is none, or while one is being written."""
    MODEL_GENERATION = 3
    """Last generation of the outbox that the model in the inbox contains."""
    IS_MODEL_UNEVEN = 15
    """Flag: 1 where rows of the model in the inbox contain more generations than others."""
    MODEL_EPOCH = 4
    """Last epoch that all streams have closed, as of the model in the inbox."""
    MODEL_ROWS = 5
    CLOSED_EPOCH = 6
    """Last epoch that this stream has closed (without the lock)."""
    HEARTBEAT = 7
    """Counter of the times that the stream was drained (without the lock)."""
    LOOKS = 11
    """Counter of the looks for a step, including those that found none (without the lock)."""
    PHASE = 8
    """Current ``Phase`` (without the lock). One that is over stays so, for all successors."""
    NAMES_VERSION = 9
    """Counter of the versions of the stream's names file (without the lock)."""
    IS_TAKING = 12
    """Flag: 1 from the agent's look to its release. Left behind, it shows that an agent died in between, and
    only a successor knows whether it had taken what it saw.
    """
    IS_MADE = 13
    """Flag: 1 once the numbers here mean anything: whoever made the file may have found no room for them."""
    MODEL_EDITION = 14
    """Counter of the models that were put into the inbox."""
    LEAST_US = 16
    """Severity in µs from which the stream's abnormal calls are recorded (set by the agent, without the
    lock).
    """
    IS_ALL_WRITTEN = 10
    """Flag: 1 once nobody writes the stream any more (set by the agent, without the lock)."""


class Outbox(msgspec.Struct, frozen=True):
    """Findings that a stream's process left, and nobody took."""

    generation: int
    learned: Learned
    steps: list[StepCount]
    """Steps in which the findings were learned."""
    telemetry: StreamTelemetry
    paths: Rows
    """``PATH`` rows; functions are the stream's timer ids."""
    _exchange: ExchangeBox

    def remove(self, is_taken: npt.NDArray[np.bool_], has_paths: bool) -> None:
        """Remove the rows of taken timers, with steps, flags and telemetry, and perhaps the call paths.

        Doing it again, after a death in its middle, does no harm: the generation ends last.
        """
        self._exchange._remove(self, is_taken, has_paths)

    def release(self) -> None:
        """Release the outbox, so that the stream's process may use it again."""
        self._exchange._release()


class Phase(IntEnum):
    """Current activity of a stream's process."""

    OPENING = 0
    READING = 1
    """Work on a step; the stream is not drained meanwhile."""
    IDLE = 2
    """Waiting for the stream's next step."""
    WAITING = 3
    """Waiting for other streams, in lockstep."""
    ENDED = 4
    BROKEN = 5
    """The stream stopped without an end: its writer died."""


class ExchangeBox:
    """One end of the exchange; both ends map the same file.

    The file is sparse: 1.2 GB of address space, but only pages of timers in use take memory.

    Parameters
    ----------
    program, rank
        Program and rank of the stream.

    Raises
    ------
    OSError
        There is no room for the file, or no address space.
    """

    def __init__(self, path: Path, schema: TableSchema, program: int = 0, rank: int = 0) -> None:
        self._schema = schema
        self._stream = program, rank
        rows, width = MAX_TIMERS, schema.width
        slot_bytes = OutboxCopy.size_bytes(schema)
        self._memory = SparseFile(path, _HEADER_BYTES + 2 * slot_bytes + 8 * rows * (width + 1))
        self._file = self._memory.file
        memory = self._memory.memory
        self._cells = np.frombuffer(memory, np.int64, _HEADER_CELLS)
        self._notifier = MappedSemaphore(memory, self._cells.nbytes)
        self.offered = np.frombuffer(memory, np.int64, BUCKETS, _OFFERED_AT)
        """Number of abnormal calls of each severity that the stream has found so far (without the lock)."""
        self.shortage = ShortageCells(np.frombuffer(memory, np.uint8, SHORTAGE_BYTES, mmap.PAGESIZE))
        at = _HEADER_BYTES
        self._slots = [OutboxCopy(self._memory, at + number * slot_bytes, schema) for number in (0, 1)]
        at += 2 * slot_bytes
        self._inbox = np.frombuffer(memory, np.float64, rows * width, at).reshape(rows, width)
        self._inbox_at = at
        self._ahead_at = at + self._inbox.nbytes
        self._ahead = np.frombuffer(memory, np.int64, rows, self._ahead_at)
        self._seen_edition = 0
        self.has_whole_model = True
        """Whether there was room for every model that the agent has put in."""
        try:
            self._make()
        except OSError:
            self.close()
            raise

    def _make(self) -> None:
        """Allocate what is always in use, and initialise it where nobody has."""
        self._memory.allocate(0, _HEADER_BYTES)
        for slot in self._slots:
            slot.allocate()
        if not self[Cell.IS_MADE]:
            self._cells[[Cell.MODEL_GENERATION, Cell.MODEL_EPOCH, Cell.CLOSED_EPOCH]] = NO_EPOCH
            self._notifier.initialise()
            self[Cell.IS_MADE] = 1

    def __getitem__(self, cell: Cell) -> int:
        return int(self._cells[cell])

    def __setitem__(self, cell: Cell, value: int) -> None:
        self._cells[cell] = value

    def close(self) -> None:
        """Close the file, and free the lock."""
        # The mapping itself goes with the last array that refers to it.
        os.close(self._file)

    def exchange(
        self,
        analysis: StreamAnalysis,
        steps: Sequence[StepCount],
        save: Callable[[int], None] = lambda slot: None,
    ) -> bool:
        """Leave what was learned in these steps and take a newer model, as the stream's process.

        Parameters
        ----------
        save
            Callback that saves what goes with the outbox. It is called with the number of the copy that is
            about to be in use, when ``analysis`` has handed out what is in that copy.

        Returns
        -------
        bool
            False if the lock was held, or if the outbox is full: nothing was done.

        Raises
        ------
        OSError
            There is no room for more in the outbox: nothing was done.
        """
        active = self._slots[self[Cell.ACTIVE]]
        if not active.takes(len(steps)) or not self._try_lock():
            return False
        if self[Cell.IS_TAKING]:
            self._unlock()
            return False
        try:
            generation, into = self[Cell.GENERATION], 1 - self[Cell.ACTIVE]
            filled = self._slots[into]
            filled.allocate_for(active, analysis.extent, len(steps))
            found = analysis.hand_out(generation)
            filled.copy_from(active)
            filled.add(found.learned, steps)
            filled.next_step = analysis.stacks.last_step + 1
            filled.telemetry.put(found.telemetry)
            filled.paths.put(active.paths, found.paths)
            save(into)
            self[Cell.ACTIVE] = into
            self._take_model(analysis)
        finally:
            self._unlock()
        return True

    @property
    def next_step(self) -> int:
        """Number of the step after the last one that is committed."""
        return self._slots[self[Cell.ACTIVE]].next_step

    def take_model(self, analysis: StreamAnalysis) -> None:
        """Judge by the model that is there, as the stream's process; waits for the lock."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        self._take_model(analysis)
        self._unlock()

    def wait_for_epoch(self, epoch: int, timeout_s: float) -> bool:
        """Wait for a signal, and return whether the model of all streams' ``epoch`` is there.

        The stream's process calls it in phase ``WAITING``.
        """
        if self[Cell.MODEL_EPOCH] < epoch:
            self._notifier.wait(timeout_s)
        return self[Cell.MODEL_EPOCH] >= epoch

    def _take_model(self, analysis: StreamAnalysis) -> None:
        version, edition = self[Cell.MODEL_VERSION], self[Cell.MODEL_EDITION]
        if version and edition != self._seen_edition:
            self._seen_edition = edition
            rows = self[Cell.MODEL_ROWS]
            ahead = self._ahead[:rows].copy() if self[Cell.IS_MODEL_UNEVEN] else None
            analysis.take_model(self._inbox[:rows].copy(), self[Cell.MODEL_GENERATION], version, ahead)

    @property
    def has_news(self) -> bool:
        """Return, as the agent and without the lock, whether a step was left that nobody has taken."""
        return self._slots[self[Cell.ACTIVE]].steps > 0

    def look(self) -> Outbox | None:
        """Return, as the agent, what is in the outbox, which stays locked; None if it was locked already."""
        if not self._try_lock():
            return None
        self[Cell.IS_TAKING] = 1
        active = self._slots[self[Cell.ACTIVE]]
        steps = active.step_counts(*self._stream)
        return Outbox(
            self[Cell.GENERATION], active.learned(), steps, active.telemetry.look(), active.paths.look(), self
        )

    def _remove(self, outbox: Outbox, is_taken: npt.NDArray[np.bool_], has_paths: bool) -> None:
        active = self._slots[self[Cell.ACTIVE]]
        active.remove(outbox.learned.timers, is_taken)
        active.telemetry.clear()
        if has_paths:
            active.paths.clear()
        self[Cell.GENERATION] = outbox.generation + 1

    def _release(self) -> None:
        self[Cell.IS_TAKING] = 0
        self._unlock()

    def take(self) -> Outbox | None:
        """Take, as the agent, everything in the outbox; None if the lock was held."""
        outbox = self.look()
        if outbox is not None:
            outbox.remove(np.ones(len(outbox.learned.timers), np.bool_), has_paths=True)
            outbox.release()
        return outbox

    def put_model(
        self,
        version: int,
        epoch: int,
        generation: int,
        table: Float64Array,
        ahead: Int64Array | None = None,
    ) -> bool:
        """Give the stream, as the agent, a newer model, rows by its timer ids; return False if the lock was
        held.

        Where there is no room for it, the model has only the functions of the one before.

        Parameters
        ----------
        generation, ahead
            Generations of the outbox that the model contains; see ``StreamStatistics.take_model``.
        """
        if not self._try_lock():
            return False
        try:
            self._memory.allocate(self._inbox_at, self._inbox.itemsize * table.size)
            self._memory.allocate(self._ahead_at, self._ahead.itemsize * len(table))
        except OSError:
            self.has_whole_model = False
            table = table[: self[Cell.MODEL_ROWS]]
        # Killed in the middle, the agent leaves no model rather than half of one.
        self[Cell.MODEL_VERSION] = 0
        self._inbox[: len(table)] = table
        if ahead is not None:
            self._ahead[: len(table)] = ahead[: len(table)]
        self[Cell.IS_MODEL_UNEVEN] = ahead is not None
        self[Cell.MODEL_ROWS] = len(table)
        self[Cell.MODEL_GENERATION] = generation
        self[Cell.MODEL_EDITION] += 1
        self[Cell.MODEL_VERSION] = version
        self[Cell.MODEL_EPOCH] = epoch
        self._unlock()
        if self[Cell.PHASE] == Phase.WAITING:
            self._notifier.notify()
        return True

    def _try_lock(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN)
