"""Exchange of statistics between a stream's process and its agent, through one shared file.

The stream's process leaves what it learned in the outbox, where deltas merge, so that it never grows
with time; the agent takes it away and puts the global model into the inbox. Neither waits for the
other: each only tries the lock, which the kernel frees when its holder dies.

There are two copies of the outbox. The stream's process fills the one that is not in use, saves its own
state beside it (``ad.checkpoint``), and then makes it the one in use by writing one number: killed at any
moment, it leaves an outbox and a state that belong together. What the agent holds back stays in the
outbox: it outlives the agent.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis import Extent, StreamAnalysis
from chimbuko.ad.kernels.stack import MAX_TIMERS
from chimbuko.ad.paths import PathOutbox
from chimbuko.ad.plight import SIZE_BYTES as PLIGHT_BYTES
from chimbuko.ad.plight import PlightCells
from chimbuko.ad.room import SparseFile
from chimbuko.ad.statistics import Learned
from chimbuko.ad.views import StreamViews, ViewOutbox
from chimbuko.messages import NO_EPOCH
from chimbuko.moments import Float64Array
from chimbuko.paths import Rows
from chimbuko.records import StepCount
from chimbuko.tables import FLAGS, TableSchema

_HEADER_CELLS = 64
_HEADER_BYTES = mmap.PAGESIZE + PLIGHT_BYTES
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
    ACTIVE = 1
    """Which copy of the outbox, and which checkpoint, is in use."""
    MODEL_VERSION = 2
    """0 while there is none, or while one is being written."""
    MODEL_GENERATION = 3
    """Last generation of the outbox that the model in the inbox contains."""
    MODEL_EPOCH = 4
    """Last epoch that all streams have closed, as of the model in the inbox."""
    MODEL_ROWS = 5
    CLOSED_EPOCH = 6
    """Last epoch that this stream has closed (without the lock)."""
    HEARTBEAT = 7
    """Counts each time the stream was drained (without the lock)."""
    LOOKS = 11
    """Counts each look for a step, also one that found none (without the lock)."""
    PHASE = 8
    """A ``Phase`` (without the lock). One that is over stays so, for all successors."""
    NAMES_VERSION = 9
    """Counts the versions of the stream's names file (without the lock)."""
    IS_TAKING = 12
    """1 from the agent's look to its release: left behind, it tells that an agent died in between, and only a
    successor knows whether it had taken what it saw."""
    IS_MADE = 13
    """1 once the numbers here mean anything: whoever made the file may have found no room for them."""
    IS_ALL_WRITTEN = 10
    """1 once nobody writes the stream any more (the agent, without the lock)."""


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


class _Slot:
    """One copy of the outbox, in the shared file from ``at`` on."""

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
        """Behind the highest function that was ever in it: what lies there is not to be touched."""
        at += self._behind_timers.nbytes
        self._steps = np.frombuffer(memory, _STEP, MOST_STEPS, at)
        at += self._steps.nbytes
        self._touched = np.frombuffer(memory, np.uint8, MAX_TIMERS, at)
        self._touched_at = at
        at += self._touched.nbytes
        self._table_at = at
        cells = MAX_TIMERS * schema.width
        self._table = np.frombuffer(memory, np.float64, cells, at).reshape(MAX_TIMERS, schema.width)
        at += self._table.nbytes
        self.paths = PathOutbox(memory, at)
        self.views = ViewOutbox(memory, at + PathOutbox.SIZE_BYTES)

    @staticmethod
    def size_bytes(schema: TableSchema) -> int:
        """Space of one copy."""
        own = _Slot._COUNTS_BYTES + MOST_STEPS * _STEP.itemsize + MAX_TIMERS + 8 * MAX_TIMERS * schema.width
        return -(-(own + PathOutbox.SIZE_BYTES + ViewOutbox.SIZE_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE

    def allocate(self) -> None:
        """Make sure of what is looked at also while the copy is empty; ``OSError`` where there is no room."""
        self._allocate_steps(0)
        self.paths.allocate(self._file, 0)
        self.views.allocate(self._file, 0, 0)

    def allocate_for(self, active: _Slot, extent: Extent, steps: int) -> None:
        """... of what is in the ``active`` copy, and of what comes to it."""
        self._allocate_steps(active.steps + steps)
        timers = np.union1d(active.timers, extent.timers)
        behind = max(int(self._behind_timers[0]), int(timers[-1]) + 1 if len(timers) else 0)
        self._file.allocate(self._touched_at, behind)
        self._behind_timers[0] = behind
        self._file.allocate_rows(self._table_at, self._table.itemsize * self._schema.width, timers)
        self.paths.allocate(self._file, max(active.paths.count, extent.paths))
        traffic = max(active.views.traffic, extent.traffic)
        self.views.allocate(self._file, traffic, max(active.views.flagged_steps, extent.flagged_steps))

    def _allocate_steps(self, steps: int) -> None:
        self._file.allocate(self._at, self._COUNTS_BYTES + steps * _STEP.itemsize)

    @property
    def steps(self) -> int:
        """How many steps are in it."""
        return int(self._step_count[0])

    @property
    def next_step(self) -> int:
        """The step behind the last one that was analysed."""
        return int(self._next_step[0])

    @next_step.setter
    def next_step(self, step: int) -> None:
        self._next_step[0] = step

    @property
    def timers(self) -> npt.NDArray[np.int64]:
        """Functions of which it has statistics, i8[n], ascending."""
        return np.flatnonzero(self._touched[: self._behind_timers[0]])

    def learned(self) -> Learned:
        """A copy of the statistics."""
        timers = self.timers
        return Learned(timers, self._table[timers])

    def step_counts(self, program: int, rank: int) -> list[StepCount]:
        """The steps."""
        return [StepCount(program, rank, *step) for step in self._steps[: self.steps].tolist()]

    def copy_from(self, other: _Slot) -> None:
        """Become a copy of the other one."""
        self._touched[self.timers] = 0
        timers = other.timers
        self._touched[timers] = 1
        self._table[timers] = other._table[timers]
        count = other.steps
        self._steps[:count] = other._steps[:count]
        self._step_count[0] = count
        self.views.copy_from(other.views)
        self.paths.copy_from(other.paths)

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
        """Take out the statistics of some functions, the flags of all of ``timers``, and all steps."""
        self._touched[timers[is_taken]] = 0
        flags_at = [self._schema.slices[name].start for name in FLAGS]
        self._table[np.ix_(timers[~is_taken], flags_at)] = self._schema.empty(1)[:, flags_at]
        self._step_count[0] = 0


class ExchangeBox:
    """One end of the exchange; both ends map the same file.

    The file is sparse: 1.2 GB of address space, but only pages of timers in use take memory.

    Parameters
    ----------
    program, rank
        Of the stream.

    Raises
    ------
    OSError
        There is no room for it, or no address space.
    """

    def __init__(self, path: Path, schema: TableSchema, program: int = 0, rank: int = 0) -> None:
        self._schema = schema
        self._stream = program, rank
        rows, width = MAX_TIMERS, schema.width
        slot_bytes = _Slot.size_bytes(schema)
        self._memory = SparseFile(path, _HEADER_BYTES + 2 * slot_bytes + 8 * rows * width)
        self._file = self._memory.file
        memory = self._memory.memory
        self._cells = np.frombuffer(memory, np.int64, _HEADER_CELLS)
        self.plight = PlightCells(np.frombuffer(memory, np.uint8, PLIGHT_BYTES, mmap.PAGESIZE))
        at = _HEADER_BYTES
        self._slots = [_Slot(self._memory, at + number * slot_bytes, schema) for number in (0, 1)]
        at += 2 * slot_bytes
        self._inbox = np.frombuffer(memory, np.float64, rows * width, at).reshape(rows, width)
        self._inbox_at = at
        self._seen_version = 0
        self.has_whole_model = True
        """For the agent: there was room for all that it has given."""
        try:
            self._make()
        except OSError:
            self.close()
            raise

    def _make(self) -> None:
        """Make sure of the room for what is always in use, and begin where nobody has."""
        self._memory.allocate(0, _HEADER_BYTES)
        for slot in self._slots:
            slot.allocate()
        if not self[Cell.IS_MADE]:
            self._cells[[Cell.MODEL_GENERATION, Cell.MODEL_EPOCH, Cell.CLOSED_EPOCH]] = NO_EPOCH
            self[Cell.IS_MADE] = 1

    def __getitem__(self, cell: Cell) -> int:
        return int(self._cells[cell])

    def __setitem__(self, cell: Cell, value: int) -> None:
        self._cells[cell] = value

    def close(self) -> None:
        """Let go of the file, and of the lock."""
        # The mapping itself goes with the last array that refers to it.
        os.close(self._file)

    def exchange(
        self,
        analysis: StreamAnalysis,
        steps: Sequence[StepCount],
        save: Callable[[int], None] = lambda slot: None,
    ) -> bool:
        """For the stream's process: leave what was learned in these steps and take a newer model.

        Parameters
        ----------
        save
            Called with the number of the copy that is about to be in use, when ``analysis`` has handed out
            what is in that: saves what goes with it.

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
        if active.steps + len(steps) > MOST_STEPS or not self._try_lock():
            return False
        if self[Cell.IS_TAKING]:
            self._unlock()
            return False
        try:
            generation, into = self[Cell.GENERATION], 1 - self[Cell.ACTIVE]
            filled = self._slots[into]
            filled.allocate_for(active, analysis.extent, len(steps))
            learned = analysis.hand_out(generation)
            filled.copy_from(active)
            filled.add(learned, steps)
            filled.next_step = analysis.stacks.last_step + 1
            filled.views.put(analysis.hand_out_views(generation))
            filled.paths.put(analysis.hand_out_paths())
            save(into)
            self[Cell.ACTIVE] = into
            self._take_model(analysis)
        finally:
            self._unlock()
        return True

    @property
    def next_step(self) -> int:
        """The step behind the last one that is committed."""
        return self._slots[self[Cell.ACTIVE]].next_step

    def take_model(self, analysis: StreamAnalysis) -> None:
        """For a new process of the stream: judge by the model that is there; waits for the lock."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        self._take_model(analysis)
        self._unlock()

    def _take_model(self, analysis: StreamAnalysis) -> None:
        version = self[Cell.MODEL_VERSION]
        if version not in (0, self._seen_version):
            self._seen_version = version
            model = self._inbox[: self[Cell.MODEL_ROWS]].copy()
            analysis.take_model(model, self[Cell.MODEL_GENERATION], version)

    @property
    def has_news(self) -> bool:
        """For the agent, without the lock: whether a step was left that nobody has taken."""
        return self._slots[self[Cell.ACTIVE]].steps > 0

    def look(self) -> Outbox | None:
        """For the agent: what stands in the outbox, which stays locked; None if it was already."""
        if not self._try_lock():
            return None
        self[Cell.IS_TAKING] = 1
        active = self._slots[self[Cell.ACTIVE]]
        steps = active.step_counts(*self._stream)
        return Outbox(
            self[Cell.GENERATION], active.learned(), steps, active.views.look(), active.paths.look()
        )

    def remove(self, outbox: Outbox, is_taken: npt.NDArray[np.bool_], has_paths: bool) -> None:
        """For the agent, after ``look``: these timers' rows are taken, with all steps, flags and views, and
        perhaps the call paths.

        Doing it again, after a death in its middle, does no harm: the generation ends last.
        """
        active = self._slots[self[Cell.ACTIVE]]
        active.remove(outbox.learned.timers, is_taken)
        active.views.clear()
        if has_paths:
            active.paths.clear()
        self[Cell.GENERATION] = outbox.generation + 1

    def release(self) -> None:
        """For the agent, after ``look``: the stream's process may use it again."""
        self[Cell.IS_TAKING] = 0
        self._unlock()

    def take(self) -> Outbox | None:
        """For the agent: everything in the outbox, which is empty then; None if the lock was held."""
        outbox = self.look()
        if outbox is not None:
            self.remove(outbox, np.ones(len(outbox.learned.timers), np.bool_), has_paths=True)
            self.release()
        return outbox

    def put_model(self, version: int, epoch: int, generation: int, table: Float64Array) -> bool:
        """For the agent: give the stream a newer model, rows by its timer ids; False if the lock was held.

        Where there is no room for it, it is that of the functions that the one before had.
        """
        if not self._try_lock():
            return False
        try:
            self._memory.allocate(self._inbox_at, self._inbox.itemsize * table.size)
        except OSError:
            self.has_whole_model = False
            table = table[: self[Cell.MODEL_ROWS]]
        # Killed in the middle, the agent leaves no model rather than half of one.
        self[Cell.MODEL_VERSION] = 0
        self._inbox[: len(table)] = table
        self[Cell.MODEL_ROWS] = len(table)
        self[Cell.MODEL_GENERATION] = generation
        self[Cell.MODEL_VERSION] = version
        self[Cell.MODEL_EPOCH] = epoch
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
