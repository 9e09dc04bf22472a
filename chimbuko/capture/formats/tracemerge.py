"""Merge of traces in any formats into one trace with one clock.

Clocks of ranks are compared by messages and collective operations: no message is received before it was
sent, and no rank leaves a collective operation before the last one came.
"""

from __future__ import annotations

import os
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from chimbuko.capture.formats.conversion import convert, program_name
from chimbuko.capture.formats.moments import Edge, MessageEnd, Moment, Moments
from chimbuko.capture.formats.written import FORMATS, is_known, writer_of
from chimbuko.capture.trace.discovery import BP5, BP_FILE, StreamName, with_ranks_apart
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.calls.clocks import Clocks
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import (
    COMM_TIME,
    COUNTER_TIME,
    EVENT_TIME,
    OPERATION_COMMUNICATOR,
    OPERATION_KIND,
    OPERATION_NUMBER,
    OPERATION_THREAD,
    OPERATION_TIME,
    Operation,
    StreamNames,
    TraceStep,
)

MOST_ENDS: Final = 1 << 20
"""Messages of which one end is known, and operations of which not all calls have ended."""
PROGRAM: Final = 0


@dataclass
class _Members:
    """Ranks in one collective operation, with the times when they came and went."""

    calls_us: dict[int, tuple[int, int]] = field(default_factory=dict)


class ClockOffsets:
    """Takes all events of all ranks, each in order, and says what to subtract of their times."""

    def __init__(self) -> None:
        self._clocks = Clocks()
        self._ends: OrderedDict[str, tuple[int, int, bool]] = OrderedDict()
        self._operations: OrderedDict[tuple[int, int, int], _Members] = OrderedDict()
        """Operations by the first rank of the world, communicator and number: each world numbers
        communicators anew.
        """

    def take(self, stream: StreamName, moments: list[Moment], step: TraceStep) -> None:
        """Take one step of a stream: its events, and the arrays that they come from."""
        for moment in moments:
            if isinstance(moment, MessageEnd):
                self._message(stream.rank, moment)
        self._collectives(stream, moments, step)

    def update(self) -> bool:
        """Find the corrections; whether there are any."""
        return self._clocks.update()

    def ahead_us(self, rank: int, time_us: int) -> int:
        """Return by how many µs the clock of a rank is ahead."""
        return round(self._clocks.ahead_us(PROGRAM, rank, time_us))

    def at(self, ranks: Mapping[int, int]) -> dict[int, tuple[float, float]]:
        """Return for the ranks that have to be corrected: µs ahead at a time of each, and how uncertain that
        is.
        """
        return {
            rank: (self._clocks.ahead_us(PROGRAM, rank, time_us), self._clocks.uncertain_us(PROGRAM, rank))
            for rank, time_us in ranks.items()
            if self._clocks.ahead_us(PROGRAM, rank, time_us)
        }

    def _message(self, rank: int, end: MessageEnd) -> None:
        other = self._ends.pop(end.flow, None)
        if other is None or other[2] == end.is_send:
            self._ends[end.flow] = rank, end.time_us, end.is_send
            if len(self._ends) > MOST_ENDS:
                self._ends.popitem(last=False)
            return
        sent, received = ((rank, end.time_us), other[:2]) if end.is_send else (other[:2], (rank, end.time_us))
        self._clocks.add((PROGRAM, sent[0]), sent[1], (PROGRAM, received[0]), received[1])

    def _collectives(self, stream: StreamName, moments: list[Moment], step: TraceStep) -> None:
        is_collective = step.operations[:, OPERATION_KIND] == Operation.COLLECTIVE
        columns = [OPERATION_THREAD, OPERATION_TIME, OPERATION_COMMUNICATOR, OPERATION_NUMBER]
        waiting = sorted(
            map(tuple, step.operations[is_collective][:, columns].tolist()), key=lambda one: one[1]
        )
        by_thread: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for one in waiting:
            by_thread[one[0]].append(one)
        # The first end of a call behind the operation is that of the call that it is in, or of one within it.
        for moment in moments:
            if isinstance(moment, Edge) and not moment.is_begin:
                queue = by_thread.get(moment.thread, [])
                while queue and queue[0][1] <= moment.time_us:
                    _, time_us, group, number = queue.pop(0)
                    if waits_in(moment.function) is Waits.COLLECTIVE:
                        # Others only begin it.
                        key = stream.first_rank, group, number
                        self._collective(stream.rank, key, time_us, moment.time_us)

    def _collective(self, rank: int, key: tuple[int, int, int], came_us: int, went_us: int) -> None:
        members = self._operations.setdefault(key, _Members())
        for other, (other_came_us, other_went_us) in list(members.calls_us.items())[-2:]:
            self._clocks.add((PROGRAM, rank), came_us, (PROGRAM, other), other_went_us)
            self._clocks.add((PROGRAM, other), other_came_us, (PROGRAM, rank), went_us)
        members.calls_us[rank] = came_us, went_us
        while len(self._operations) > MOST_ENDS:
            self._operations.popitem(last=False)


SILENCE_S: Final = 1.0
PERIOD_US: Final = 1_000_000


@dataclass
class Merged:
    """Result of a merge."""

    streams: list[StreamName] = field(default_factory=list)
    """Streams that the merged trace is made of, each with its rank there."""
    moved: list[tuple[str, int, int]] = field(default_factory=list)
    """Programs whose ranks others have: by name, the first of their ranks before and in the trace."""
    rows: int = 0
    offsets_us: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Offsets of the ranks whose clocks contradicted others: by how many µs they were ahead at their
    beginning, and how uncertain that is.
    """
    complaints: list[str] = field(default_factory=list)


def merge(streams: Sequence[StreamName], others: Sequence[Path], target: Path, is_aligned: bool) -> Merged:
    """Write recorded streams, and files of other tools, as one trace.

    Parameters
    ----------
    target
        A new file whose name says its format, or a new folder for streams.
    is_aligned
        Clocks that contradict messages or collective operations are corrected.

    Raises
    ------
    TraceFormatError
        A trace cannot be read, or the target not be written.
    """
    if target.exists():
        raise TraceFormatError(f"{target}: is there already; choose another")
    if target.suffix and not is_known(target):
        raise TraceFormatError(
            f"{target}: in no format that can be written; end its name by one of {', '.join(FORMATS)}, or "
            "give a folder without an end"
        )
    result = Merged()
    with TemporaryDirectory(prefix=".chimbuko-", dir=_parent(target)) as folder:
        worlds: dict[tuple[int, str], list[StreamName]] = defaultdict(list)
        for stream in streams:
            worlds[stream.first_rank, stream.program].append(stream)
        # Programs of one job share a numbering, and what several jobs began comes in this order, too.
        groups = [worlds[key] for key in sorted(worlds)]
        if others:
            converted = convert(others, Path(folder), program_name(others[0]), PERIOD_US)
            result.complaints += converted.complaints
            groups.append(converted.streams)
        sources = with_ranks_apart(groups)
        result.streams = sources
        result.moved = _moved(groups, sources)
        clocks = _clocks(sources, result) if is_aligned else None
        try:
            if is_known(target):
                _write_file(sources, clocks, target, result)
            else:
                _write_streams(sources, clocks, target, result)
        except OSError as error:
            with suppress(OSError):
                target.unlink()
            raise TraceFormatError(f"{target}: cannot be written ({error.strerror})") from error
    return result


def _moved(
    groups: Sequence[Sequence[StreamName]], sources: Sequence[StreamName]
) -> list[tuple[str, int, int]]:
    ranks = (stream.rank for stream in sources)
    found = []
    for group in groups:
        new = min(islice(ranks, len(group)))
        old = min(stream.rank for stream in group)
        if new != old:
            found.append((group[0].program, old, new))
    return found


def _parent(target: Path) -> Path:
    parent = target.absolute().parent
    if not os.access(parent, os.W_OK):
        raise TraceFormatError(f"{parent}: cannot be written; is there such a folder?")
    return parent


def _clocks(sources: Sequence[StreamName], result: Merged) -> ClockOffsets | None:
    clocks = ClockOffsets()
    begins: dict[int, int] = {}
    for stream in sources:
        for step, moments, _ in _steps(stream, None, Moments(stream.rank)):
            if interval := step.interval_us():
                begins.setdefault(stream.rank, interval[0])
            clocks.take(stream, moments, step)
    if not clocks.update():
        return None
    result.offsets_us = clocks.at(begins)
    return clocks


def _steps(
    stream: StreamName, clocks: ClockOffsets | None, moments: Moments
) -> Iterator[tuple[TraceStep, list[Moment], StreamNames]]:
    """Yield each step of a stream with its events, on the common clock."""
    with StreamReader(stream.path, BP_FILE, rank=stream.rank, first_rank=stream.first_rank) as reader:
        while not isinstance(step := reader.next_step(SILENCE_S), Waiting):
            if clocks is not None:
                _shift(step, stream.rank, clocks)
            yield step, list(moments.of(step, reader.names)), reader.names


def _shift(step: TraceStep, rank: int, clocks: ClockOffsets) -> None:
    """Shift a step; within one a clock does not drift by as much as 1 µs."""
    interval = step.interval_us()
    if interval is None:
        return
    ahead_us = clocks.ahead_us(rank, interval[0])
    for rows, time in (
        (step.events, EVENT_TIME),
        (step.comms, COMM_TIME),
        (step.counters, COUNTER_TIME),
        (step.operations, OPERATION_TIME),
    ):
        times = rows[:, time].astype("i8") - ahead_us
        rows[:, time] = times.clip(min=1)


def _write_file(
    sources: Sequence[StreamName], clocks: ClockOffsets | None, target: Path, result: Merged
) -> None:
    with target.open("xb") as file:
        writer = writer_of(target, file)
        for stream in sources:
            writer.begin_rank(stream.rank, f"{stream.program} rank {stream.rank}")
            taken = Moments(stream.rank)
            for step, moments, names in _steps(stream, clocks, taken):
                writer.write(moments, names)
                result.rows += step.rows
            if taken.left_out:
                result.complaints.append(
                    f"{stream.path}: left out are {taken.left_out:,} events whose time is absurd"
                )
        writer.close()


def _write_streams(
    sources: Sequence[StreamName], clocks: ClockOffsets | None, target: Path, result: Merged
) -> None:
    target.mkdir()
    for stream in sources:
        name = stream._replace(first_rank=0).file_name
        with ExitStack() as stack:
            writer = stack.enter_context(StreamWriter(target / name, BP5))
            for step, _, names in _steps(stream, clocks, Moments(stream.rank)):
                writer.write_step(
                    step.events, step.comms, step.counters, names, step.details, step.operations
                )
                result.rows += step.rows
