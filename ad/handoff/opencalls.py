"""Open calls of a stream, published to its agent after every step through one shared file.

While a rank hangs its stream gives no step, and the process that reads it waits inside ADIOS2, with Python's
lock held. So whatever the agent may want to know meanwhile has to be there already. The stream's process
writes, the agent only reads, except that it notes the calls it has reported; neither waits for the other.
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from pathlib import Path

import msgspec
import numpy as np

from chimbuko.ad.calls.reportedcalls import REPORT, Reports
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.handoff.sparsefile import allocated
from chimbuko.ad.kernels.stack import OPEN, gather_open
from chimbuko.core.arrays import Table, UInt64Array, as_table
from chimbuko.core.calls.record import StepCount

MOST_OPEN_CALLS = 4096
_MOST_REPORTS = 64
"""Maximum number of reports that the stream's process has not seen yet; older ones are forgotten."""
_HEADER_CELLS = 64
_MOST_TRIES = 100


class _Cell(IntEnum):
    SEQUENCE = 0
    """Sequence number, odd while the stream's process writes."""
    STEPS = 1
    """Number of steps that the stream's process has reported."""
    COUNT = 2
    STEP = 3
    START_US = 4
    NEWEST_US = 5
    REPORTS = 6
    """Number of reports that the agent has left."""


class OpenCalls(msgspec.Struct, frozen=True):
    """Calls that are open after a step."""

    steps: int
    """Number of steps that the stream's processes have reported."""
    step: int
    start_us: int
    newest_us: int
    """Time of the newest event: until then the calls were open for certain."""
    calls: Table
    """``OPEN`` rows: thread by thread, of each the outermost first."""

    @classmethod
    def none(cls) -> OpenCalls:
        """Return the calls of a stream that gave no step."""
        return cls(0, 0, 0, 0, as_table(np.zeros(0, OPEN)))

    @classmethod
    def of(cls, stacks: CallStacks, steps: int, step: StepCount) -> OpenCalls:
        """Return the calls that are open after a step, the stream's ``steps``-th."""
        calls: Table = as_table(np.zeros(MOST_OPEN_CALLS, OPEN))
        count = gather_open(stacks.calls, stacks.threads, stacks.thread_count, calls)
        return cls(steps, step.step, step.start_us, step.end_us, calls[:count])


_SIZE_BYTES = 8 * _HEADER_CELLS + _MOST_REPORTS * REPORT.itemsize + MOST_OPEN_CALLS * OPEN.itemsize
"""Size of the file, 230 kB."""


class OpenCallsFile:
    """One end of the file of open calls; both ends map it. Where there is no room for that, each end is
    alone.
    """

    def __init__(self, path: Path) -> None:
        self.has_room = True
        """Whether the file has storage, so that the other end hears of anything."""
        try:
            memory = allocated(path, _SIZE_BYTES)
        except OSError:
            self.has_room = False
            memory = mmap.mmap(-1, _SIZE_BYTES)
        at = 8 * _HEADER_CELLS
        self._cells = np.frombuffer(memory, np.int64, _HEADER_CELLS)
        self._reports = np.frombuffer(memory, REPORT, _MOST_REPORTS, at)
        at += self._reports.nbytes
        self._calls: Table = as_table(np.frombuffer(memory, OPEN, MOST_OPEN_CALLS, at))
        self.reports_seen = int(self._cells[_Cell.REPORTS])
        """Number of the agent's reports that the stream's process knows."""

    def forget(self) -> None:
        """Forget what an earlier process left open, as a new process of the stream: it is unknown now."""
        # The earlier process may have been killed while it wrote.
        self._cells[_Cell.SEQUENCE] |= 1
        self._cells[_Cell.COUNT] = 0
        self._cells[_Cell.SEQUENCE] += 1

    def go_on(self, stacks: CallStacks, reports_seen: int) -> None:
        """Continue, as a new process of the stream that knows what is open; an earlier one knew of
        ``reports_seen`` reports.
        """
        self._cells[_Cell.SEQUENCE] |= 1
        self._cells[_Cell.COUNT] = gather_open(stacks.calls, stacks.threads, stacks.thread_count, self._calls)
        self._cells[_Cell.SEQUENCE] += 1
        self.reports_seen = reports_seen

    def publish(self, stacks: CallStacks, step: StepCount) -> None:
        """Publish, as the stream's process, the calls that are open after a step."""
        cells = self._cells
        cells[_Cell.SEQUENCE] += 1
        cells[_Cell.COUNT] = gather_open(stacks.calls, stacks.threads, stacks.thread_count, self._calls)
        cells[_Cell.STEP] = step.step
        cells[_Cell.START_US] = step.start_us
        cells[_Cell.NEWEST_US] = step.end_us
        cells[_Cell.STEPS] += 1
        cells[_Cell.SEQUENCE] += 1

    def entries(self, entry_kind: int) -> UInt64Array:
        """Return, as the stream's process, the open calls as ENTRY rows for the flight recorder, uint64[n,
        2].
        """
        calls = self._calls[: self._cells[_Cell.COUNT]]
        rows = np.empty((len(calls), 2), np.uint64)
        rows[:, 0] = calls["entry_us"]
        code = calls["thread"].astype(np.uint64) | np.uint64(entry_kind << 16)
        rows[:, 1] = calls["function"].astype(np.uint64) | code << np.uint64(32)
        return rows

    @property
    def steps(self) -> int:
        """Number of steps that were reported."""
        return int(self._cells[_Cell.STEPS])

    @property
    def newest_us(self) -> int:
        """Time of the newest event of the reported steps."""
        return int(self._cells[_Cell.NEWEST_US])

    def read(self) -> OpenCalls | None:
        """Return the open calls; None if the file was written to at each attempt."""
        for _ in range(_MOST_TRIES):
            before = int(self._cells[_Cell.SEQUENCE])
            cells = self._cells.tolist()
            calls = self._calls[: cells[_Cell.COUNT]].copy()
            if before % 2 == 0 and before == int(self._cells[_Cell.SEQUENCE]):
                return OpenCalls(
                    steps=cells[_Cell.STEPS],
                    step=cells[_Cell.STEP],
                    start_us=cells[_Cell.START_US],
                    newest_us=cells[_Cell.NEWEST_US],
                    calls=calls,
                )
        return None

    def report(self, report: Reports) -> None:
        """Note, as the agent, that a call was reported, ``REPORT[1]``; its stream's process shall record how
        it ends.
        """
        number = int(self._cells[_Cell.REPORTS])
        self._reports[number % _MOST_REPORTS] = report[0]
        self._cells[_Cell.REPORTS] = number + 1

    def new_reports(self) -> Reports:
        """Return, as the stream's process, the reports since the last call, ``REPORT`` rows."""
        first, self.reports_seen = self.reports_seen, int(self._cells[_Cell.REPORTS])
        if first == self.reports_seen:
            return self._reports[:0]
        numbers = np.arange(max(first, self.reports_seen - _MOST_REPORTS), self.reports_seen)
        return self._reports[numbers % _MOST_REPORTS]
