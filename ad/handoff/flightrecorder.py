"""Flight recorder: the newest raw rows of one stream, in a file that never grows.

The file is a ring of steps. Positions in it only rise, and are taken modulo its size: the writer moves
``TAIL`` past what it is about to overwrite before it writes, and ``HEAD`` behind a step once that is
complete. A reader copies first and asks for ``TAIL`` afterwards: what lies behind it was not touched
meanwhile. So nobody waits for anybody, and what a killed process leaves can be read.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path

import msgspec
import numpy as np

from chimbuko.ad.handoff.sparsefile import allocated
from chimbuko.ad.kernels import rawrows
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.calls.rawrows import COLUMNS, RecordedStep
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep
from chimbuko.runtime.process.lifetime import log

_HEADER_BYTES = 4096
_HEAD = struct.Struct("=QqQQ6I")
"""Head of a record: the size in bytes of all of it, this head included; the step, its start and end in µs;
the numbers of open calls, events, messages, counters and operations that follow, in this order; whether
all events of the step are there.
"""
_STEP = 1
"""Index of the step in a head."""
_PACK = {
    "events": rawrows.pack_events,
    "messages": rawrows.pack_messages,
    "counters": rawrows.pack_counters,
    "operations": rawrows.pack_operations,
}
_END_OF_LAP = -1
"""Step number of a record that stands for the end of the ring: the next record is at its beginning."""
_LATEST_US = (1 << 64) - 1


class _Cell(IntEnum):
    TAIL = 0
    """Position of the oldest record."""
    HEAD = 1
    """Position after the newest record."""
    LOST = 2
    """Flag: 1 once any row had to be given up."""


class FlightRecorder:
    """Writing end of a flight recorder: keeps the newest steps. Of a step that is too large it keeps the
    newest rows.

    Parameters
    ----------
    path
        File, made if needed; what an earlier process of the stream recorded is kept.
    size_bytes
        Size of the ring; with 0 nothing is recorded.
    rank
        Rank of the stream; rows of any other rank are damaged, and left out.
    """

    def __init__(self, path: Path, size_bytes: int, rank: int) -> None:
        self._rank = np.uint64(rank)
        self._size = size_bytes // 8 * 8
        self.has_room = True
        """Whether the recorder has storage, where it was asked for."""
        try:
            memory = allocated(path, _HEADER_BYTES + self._size)
        except OSError as error:
            log(f"{path}: no room for the flight recorder ({error.strerror}); this stream goes without")
            path.unlink(missing_ok=True)
            self.has_room = False
            self._size = 0
            memory = mmap.mmap(-1, _HEADER_BYTES)
        self._cells = np.frombuffer(memory, np.int64, len(_Cell))
        self._ring = np.frombuffer(memory, np.uint8, self._size, _HEADER_BYTES)

    @property
    def last_step(self) -> int:
        """Newest step that is held, from an earlier process; -1 if there is none."""
        position, head, last = int(self._cells[_Cell.TAIL]), int(self._cells[_Cell.HEAD]), -1
        while position < head:
            start = position % self._size
            if self._size - start >= _HEAD.size:
                last = max(last, _HEAD.unpack_from(self._ring.data, start)[_STEP])
            position = _following(self._ring.data, position)
        return last

    def append(self, step: TraceStep, opened: UInt64Array) -> None:
        """Keep a step that has any rows.

        Parameters
        ----------
        opened
            Packed ENTRY rows of the calls open when the step began, outer calls of a thread first; uint64[n,
            2].
        """
        if not step.rows:
            return
        parts = _parts_of(step)
        needed = _HEAD.size + opened.nbytes + 8 * _numbers_in(parts)
        if needed <= self._size:
            self._write(step.step, parts, opened, 0, self._make_room(needed))
            return
        self._cells[_Cell.LOST] = 1
        if self._size > _HEAD.size:
            at = self._make_room(self._size)
            since_us, end_us = step.interval_us() or (0, 0)
            while since_us <= end_us and not self._write(step.step, parts, opened[:0], since_us, at):
                since_us = (since_us + end_us) // 2 + 1

    def _make_room(self, needed: int) -> int:
        """Give up old records until ``needed`` bytes are free in one piece; return the position of these."""
        head, tail = int(self._cells[_Cell.HEAD]), int(self._cells[_Cell.TAIL])
        left = self._size - head % self._size
        at = head if needed <= left else head + left
        while tail < head and at + needed - tail > self._size:
            tail = _following(self._ring.data, tail)
            self._cells[_Cell.LOST] = 1
        self._cells[_Cell.TAIL] = tail if tail < head else at
        if at > head and left >= _HEAD.size:
            _HEAD.pack_into(self._ring.data, head % self._size, left, _END_OF_LAP, 0, 0, 0, 0, 0, 0, 0, 0)
        return at

    def _write(
        self, step: int, parts: dict[str, UInt64Array], opened: UInt64Array, since_us: int, at: int
    ) -> bool:
        """Write a record at the position ``at``; return False if there is no room before the end of the
        ring.
        """
        start = at % self._size
        room = self._ring[start + _HEAD.size :].view(np.uint64)
        room[: opened.size] = opened.ravel()
        packed = _pack(parts, self._rank, since_us, room[opened.size :])
        if packed is None:
            return False
        counts, times = packed
        if sum(counts.values()) == 0:
            return True
        size_bytes = _HEAD.size + opened.nbytes + 8 * sum(COLUMNS[part] * n for part, n in counts.items())
        head = size_bytes, step, *times, len(opened), *counts.values()
        _HEAD.pack_into(self._ring.data, start, *head, counts["events"] == len(parts["events"]))
        self._cells[_Cell.HEAD] = at + size_bytes
        return True


def _parts_of(step: TraceStep) -> dict[str, UInt64Array]:
    return {
        "events": step.events,
        "messages": step.comms,
        "counters": step.counters,
        "operations": step.operations,
    }


def _numbers_in(parts: dict[str, UInt64Array]) -> int:
    """Return how many numbers the packed rows have."""
    return sum(COLUMNS[part] * len(rows) for part, rows in parts.items())


def _pack(
    parts: dict[str, UInt64Array], rank: np.uint64, since_us: int, room: UInt64Array
) -> tuple[dict[str, int], tuple[int, int]] | None:
    """Pack rows from a time on, part after part; return the number of each, and the earliest and latest time
    of all.

    None is returned where there was not room enough.
    """
    used, times = 0, np.array([_LATEST_US, 0], np.uint64)
    counts = {}
    for part, rows in parts.items():
        columns = COLUMNS[part]
        most = min((len(room) - used) // columns, len(rows))
        free = room[used : used + most * columns].reshape(most, columns)
        count = _PACK[part](rows, rank, np.uint64(since_us), free, times)
        if count == rawrows.FULL:
            return None
        counts[part] = count
        used += count * columns
    first, last = times.tolist()
    return counts, (first, last)


def record_steps(steps: Iterable[TraceStep], names: StreamNames, rank: int) -> Iterator[RecordedStep]:
    """Return what a recorder would hold that has room for all steps of a stream, and has not seen earlier
    ones.

    Parameters
    ----------
    names
        Names that are known by each step.
    """
    opened = np.empty((0, 2), np.uint64)
    for step in steps:
        parts = _parts_of(step)
        room = np.empty(_numbers_in(parts), np.uint64)
        packed = _pack(parts, np.uint64(rank), 0, room)
        if packed is None or not any(packed[0].values()):
            continue
        counts, (start_us, end_us) = packed
        ends = np.cumsum([COLUMNS[part] * count for part, count in counts.items()])
        pieces = {part: one.tobytes() for part, one in zip(counts, np.split(room, ends), strict=False)}
        is_whole = counts["events"] == len(step.events)
        recorded = RecordedStep(step.step, start_us, end_us, opened.tobytes(), **pieces, is_whole=is_whole)
        yield recorded
        opened = _open_at(recorded, end_us + 1, names)


class Recording(msgspec.Struct, frozen=True):
    """Contents of a flight recorder."""

    steps: list[RecordedStep]
    """Steps, oldest first."""
    is_whole: bool
    """Whether nothing had to be given up yet."""

    @property
    def since_us(self) -> int:
        """Time to which the recording reaches back; 0 if it holds all that there was."""
        return 0 if self.is_whole else min((step.start_us for step in self.steps), default=0)

    def between(self, start_us: int, end_us: int, names: StreamNames) -> list[RecordedStep]:
        """Return all rows from ``start_us`` to ``end_us``, inclusive, step by step.

        The first step has the calls that were open then; where there are no rows, it is a step without any.
        """
        steps = [step for step in self.steps if step.start_us <= end_us]
        over = [step for step in steps if step.end_us >= start_us] or steps[-1:]
        return [_within(step, start_us, end_us, names) for step in over]


def read_recording(path: Path) -> Recording:
    """Return all that a recorder holds, from any process; nothing if there is none."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return Recording([], is_whole=False)
    try:
        head = _read_cells(file)[_Cell.HEAD]
        # In the first lap there is nothing behind the newest record.
        size = os.fstat(file).st_size - _HEADER_BYTES
        content = os.pread(file, min(size, head), _HEADER_BYTES)
        cells = _read_cells(file)
    finally:
        os.close(file)
    steps = list(_records(content, cells[_Cell.TAIL], head))
    return Recording(steps, is_whole=not cells[_Cell.LOST])


def _read_cells(file: int) -> list[int]:
    cells: list[int] = np.frombuffer(os.pread(file, 8 * len(_Cell), 0), np.int64).tolist()
    return cells


def _records(ring: bytes, tail: int, head: int) -> Iterator[RecordedStep]:
    position = tail
    while position < head:
        start = position % len(ring)
        position = _following(ring, position)
        if len(ring) - start < _HEAD.size:
            continue
        _, step, start_us, end_us, *counts, is_whole = _HEAD.unpack_from(ring, start)
        if step == _END_OF_LAP:
            continue
        at = start + _HEAD.size
        parts = []
        for columns, count in zip(COLUMNS.values(), counts, strict=True):
            parts.append(ring[at : at + 8 * columns * count])
            at += 8 * columns * count
        yield RecordedStep(
            step, start_us, end_us, **dict(zip(COLUMNS, parts, strict=True)), is_whole=bool(is_whole)
        )


def _following(ring: bytes | memoryview, position: int) -> int:
    """Return the position of the record after the one at ``position``."""
    start = position % len(ring)
    left = len(ring) - start
    if left < _HEAD.size:
        return position + left
    return position + int(_HEAD.unpack_from(ring, start)[0])


def _within(step: RecordedStep, start_us: int, end_us: int, names: StreamNames) -> RecordedStep:
    """Return the step's rows from ``start_us`` to ``end_us``, and the calls open at ``start_us``."""
    opened = _open_at(step, start_us, names) if start_us > step.start_us else step.packed("open")
    return RecordedStep(
        step=step.step,
        start_us=max(start_us, step.start_us),
        end_us=min(end_us, step.end_us),
        open=opened.tobytes(),
        events=_between(step.packed("events"), start_us, end_us),
        messages=_between(step.packed("messages"), start_us, end_us),
        counters=_between(step.packed("counters"), start_us, end_us),
        operations=_between(step.packed("operations"), start_us, end_us),
    )


def _open_at(step: RecordedStep, time_us: int, names: StreamNames) -> UInt64Array:
    """Return ENTRY rows of the calls that are open at a time of a step, or after it."""
    opened, events = step.packed("open"), step.packed("events")
    still = np.empty((len(opened) + len(events), 2), np.uint64)
    entry, leave = (np.uint64(names.event_type_id(kind)) for kind in (EventType.ENTRY, EventType.EXIT))
    return still[: rawrows.open_at(opened, events, np.uint64(time_us), entry, leave, still)]


def _between(rows: UInt64Array, start_us: int, end_us: int) -> bytes:
    return rows[(rows[:, 0] >= start_us) & (rows[:, 0] <= end_us)].tobytes()
