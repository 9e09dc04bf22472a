"""The open calls of a stream, published to its agent after every step through one shared file.

While a rank hangs its stream gives no step, and the process that reads it waits inside ADIOS2, with
Python's lock held. So whatever the agent may want to know meanwhile has to lie ready. The stream's
process writes, the agent only reads, except that it leaves word of the calls it has reported; neither
waits for the other.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from chimbuko.ad.calls.reportedcalls import REPORT, Reports
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.handoff.sparsefile import allocated
from chimbuko.ad.kernels.stack import OPEN, gather_open
from chimbuko.core.arrays import Table, UInt64Array, as_table
from chimbuko.core.calls.record import StepCount

MOST_OPEN_CALLS = 4096
_MOST_REPORTS = 64
"""Of those not yet seen by the stream's process; older ones are forgotten."""
_HEADER_CELLS = 64
_MOST_TRIES = 100


class _Cell(IntEnum):
    SEQUENCE = 0
    """Odd while the stream's process writes."""
    STEPS = 1
    """How many steps it has reported."""
    COUNT = 2
    STEP = 3
    START_US = 4
    NEWEST_US = 5
    REPORTS = 6
    """How many the agent has left."""


@dataclass(frozen=True)
class OpenCalls:
    """What is open after a step."""

    steps: int
    """How many steps the stream's processes have reported."""
    step: int
    start_us: int
    newest_us: int
    """Time of the newest event: until then the calls were open for certain."""
    calls: Table
    """OPEN[n]: thread by thread, of each the outermost first."""


_SIZE_BYTES = 8 * _HEADER_CELLS + _MOST_REPORTS * REPORT.itemsize + MOST_OPEN_CALLS * OPEN.itemsize
"""230 kB."""


class OpenCallsFile:
    """One end; both map the same file. Where there is no room for that, each end is alone."""

    def __init__(self, path: Path) -> None:
        self.has_room = True
        """Whether there is news for the other end."""
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
        """Of the agent's reports, those that the stream's process knows."""

    def forget(self) -> None:
        """For a new process of the stream: what an earlier one left open is unknown now."""
        # That one may have been killed while it wrote.
        self._cells[_Cell.SEQUENCE] |= 1
        self._cells[_Cell.COUNT] = 0
        self._cells[_Cell.SEQUENCE] += 1

    def go_on(self, stacks: CallStacks, reports_seen: int) -> None:
        """For a new process of the stream that knows what is open; an earlier one knew of so many reports."""
        self._cells[_Cell.SEQUENCE] |= 1
        self._cells[_Cell.COUNT] = gather_open(stacks.calls, stacks.threads, stacks.thread_count, self._calls)
        self._cells[_Cell.SEQUENCE] += 1
        self.reports_seen = reports_seen

    def publish(self, stacks: CallStacks, step: StepCount) -> None:
        """For the stream's process: the calls that are open after a step."""
        cells = self._cells
        cells[_Cell.SEQUENCE] += 1
        cells[_Cell.COUNT] = gather_open(stacks.calls, stacks.threads, stacks.thread_count, self._calls)
        cells[_Cell.STEP] = step.step
        cells[_Cell.START_US] = step.start_us
        cells[_Cell.NEWEST_US] = step.end_us
        cells[_Cell.STEPS] += 1
        cells[_Cell.SEQUENCE] += 1

    def entries(self, entry_kind: int) -> UInt64Array:
        """For the stream's process: the open calls as ENTRY rows for the flight recorder, u8[n, 2]."""
        calls = self._calls[: self._cells[_Cell.COUNT]]
        rows = np.empty((len(calls), 2), np.uint64)
        rows[:, 0] = calls["entry_us"]
        code = calls["thread"].astype(np.uint64) | np.uint64(entry_kind << 16)
        rows[:, 1] = calls["function"].astype(np.uint64) | code << np.uint64(32)
        return rows

    @property
    def steps(self) -> int:
        """How many steps were reported."""
        return int(self._cells[_Cell.STEPS])

    @property
    def newest_us(self) -> int:
        """Time of the newest event of these."""
        return int(self._cells[_Cell.NEWEST_US])

    def read(self) -> OpenCalls | None:
        """What is open; None where it was written to each time that it was tried."""
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
        """For the agent: a call was reported, REPORT[1]; its stream's process shall record how it ends."""
        number = int(self._cells[_Cell.REPORTS])
        self._reports[number % _MOST_REPORTS] = report[0]
        self._cells[_Cell.REPORTS] = number + 1

    def new_reports(self) -> Reports:
        """For the stream's process: what was reported since the last time, REPORT[n]."""
        first, self.reports_seen = self.reports_seen, int(self._cells[_Cell.REPORTS])
        if first == self.reports_seen:
            return self._reports[:0]
        numbers = np.arange(max(first, self.reports_seen - _MOST_REPORTS), self.reports_seen)
        return self._reports[numbers % _MOST_REPORTS]
