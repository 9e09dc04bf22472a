"""Ranks of the processes of a trace, and their streams, which are written step by step."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from typing import Final

import numpy as np

from chimbuko.capture.formats.readers.events import NO_EVENTS, Catalogue, Process
from chimbuko.capture.formats.rows import NS_PER_US, ProcessRows, StepRows
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import Table
from chimbuko.core.sourcecensus import CALLS_SEEN, SourceCensus
from chimbuko.core.traceschema import EVENT_TYPE, EventType

MOST_RANK = 10_000_000


def stated(process: Process) -> int | None:
    """Return the rank that a trace gives a process, where it can be one."""
    return process.rank if process.rank is not None and 0 <= process.rank < MOST_RANK else None


def assigned(processes: Sequence[Process], used: Collection[int]) -> list[int]:
    """Return a rank for each process: the one that the trace gives it, if no other has it, or one that is
    free.

    Parameters
    ----------
    used
        Numbers of the processes of which there are events: the others come last.
    """
    taken: set[int] = set()
    ranks: dict[int, int] = {}
    order = sorted(range(len(processes)), key=lambda number: number not in used)
    for number in order:
        wanted = stated(processes[number])
        if wanted is not None and wanted not in taken:
            ranks[number] = wanted
            taken.add(wanted)
    free = (number for number in itertools.count() if number not in taken)
    for number in order:
        if number not in ranks:
            ranks[number] = next(free)
    return [ranks[number] for number in range(len(processes))]


def _entries(step: StepRows) -> int:
    return int((step.events[:, EVENT_TYPE] == EventType.ENTRY).sum())


LATEST_NS: Final = 1 << 62


class Streams:
    """Streams that are being written, one for each process as it appears.

    Parameters
    ----------
    rank_of
        Returns the rank of a process, by its number in the catalogue.
    opened
        Opens the stream of a rank.
    stack
        Ends the streams.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        program: str,
        rank_of: Callable[[int], int],
        opened: Callable[[int], StreamWriter],
        stack: ExitStack,
    ) -> None:
        self.rows = 0
        self._catalogue = catalogue
        self._program = program
        self._rank_of = rank_of
        self._opened = opened
        self._stack = stack
        self._processes: dict[int, tuple[ProcessRows, StreamWriter]] = {}
        self._calls: Counter[int] = Counter()
        """Calls of each process that were written."""
        self._origin_ns: int | None = None

    def write(self, events: Table, end_ns: int) -> None:
        """Write a step of all processes: the next events, in order of time; none before ``end_ns`` will
        follow.
        """
        if self._origin_ns is None and len(events):
            # A stream has no time before 1 µs.
            self._origin_ns = min(0, int(events["time_ns"][0]) - NS_PER_US)
        events = self._catalogue.united(events)
        owners = self._owners()[events["track"]]
        for process in np.unique(owners).tolist():
            if process not in self._processes:
                self._open(process)
        for process, (rows, _) in self._processes.items():
            step = rows.step(events[owners == process], end_ns)
            if step.rows or len(events):
                self._write(process, step)

    def finish(self) -> None:
        """Write the last step of all processes, with how many calls the trace has of each."""
        for process, (rows, _) in self._processes.items():
            step = rows.step(NO_EVENTS, LATEST_NS)
            lost = self._catalogue.unwritten[process].items()
            # "calls that end before they begin": the reason follows the first word.
            unwritten = {reason.partition(" ")[2]: number for reason, number in lost}
            seen = self._calls[process] + _entries(step) + sum(unwritten.values())
            census = SourceCensus("the trace", seen, unwritten)
            rows.names.metadata[rows.rank, 0, CALLS_SEEN] = census.text()
            self._write(process, step)

    def _write(self, process: int, step: StepRows) -> None:
        rows, writer = self._processes[process]
        writer.write_step(step.events, step.comms, step.counters, rows.names, operations=step.operations)
        self.rows += step.rows
        self._calls[process] += _entries(step)

    def _owners(self) -> Table:
        return np.array([track.process for track in self._catalogue.tracks], np.int32)

    def _open(self, process: int) -> None:
        rows = ProcessRows(self._catalogue, process, self._rank_of, self._origin_ns or 0, self._program)
        self._processes[process] = rows, self._stack.enter_context(self._opened(rows.rank))
