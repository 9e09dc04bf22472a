"""Puts traces together, whatever they are in, into one trace with one clock."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from chimbuko.capture.formats.clockoffsets import ClockOffsets
from chimbuko.capture.formats.conversion import convert, program_name
from chimbuko.capture.formats.moments import Moment, Moments
from chimbuko.capture.formats.written import FORMATS, is_known, writer_of
from chimbuko.capture.trace.discovery import StreamName, with_ranks_apart
from chimbuko.capture.trace.engines import BP5, BP_FILE
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import (
    COMM_TIME,
    COUNTER_TIME,
    EVENT_TIME,
    OPERATION_TIME,
    StreamNames,
    TraceStep,
)

SILENCE_S: Final = 1.0
PERIOD_US: Final = 1_000_000


@dataclass
class Merged:
    """What became of traces."""

    streams: list[StreamName] = field(default_factory=list)
    """What it is made of, each with its rank in it."""
    moved: list[tuple[str, int, int]] = field(default_factory=list)
    """Programs whose ranks others have: by name, the first of their ranks before and in the trace."""
    rows: int = 0
    offsets_us: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Of ranks whose clocks contradicted others: by how many µs they were ahead at their beginning, and how
    uncertain that is."""
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
        for step, moments, _ in _steps(stream, None):
            if interval := step.interval_us():
                begins.setdefault(stream.rank, interval[0])
            clocks.take(stream, moments, step)
    if not clocks.update():
        return None
    result.offsets_us = clocks.at(begins)
    return clocks


def _steps(
    stream: StreamName, clocks: ClockOffsets | None
) -> Iterator[tuple[TraceStep, list[Moment], StreamNames]]:
    """Each step of a stream with its events, on the common clock."""
    moments = Moments(stream.rank)
    with StreamReader(stream.path, BP_FILE, rank=stream.rank, first_rank=stream.first_rank) as reader:
        while not isinstance(step := reader.next_step(SILENCE_S), Waiting):
            if clocks is not None:
                _shift(step, stream.rank, clocks)
            yield step, list(moments.of(step, reader.names)), reader.names


def _shift(step: TraceStep, rank: int, clocks: ClockOffsets) -> None:
    """In a step a clock does not drift by as much as 1 µs."""
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
            for step, moments, names in _steps(stream, clocks):
                writer.write(moments, names)
                result.rows += step.rows
        writer.close()


def _write_streams(
    sources: Sequence[StreamName], clocks: ClockOffsets | None, target: Path, result: Merged
) -> None:
    target.mkdir()
    for stream in sources:
        name = replace(stream, first_rank=0).file_name
        with ExitStack() as stack:
            writer = stack.enter_context(StreamWriter(target / name, BP5))
            for step, _, names in _steps(stream, clocks):
                writer.write_step(
                    step.events, step.comms, step.counters, names, step.details, step.operations
                )
                result.rows += step.rows
