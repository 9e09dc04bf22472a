"""Spool: an on-disk queue of one stream's findings, written by its process, shipped by its agent.

A spool is a folder of segment files; a segment is a row of frames, each with its length and a sequence number
that only rises. What is acknowledged is removed by whole segments. At its byte limit the spool keeps the
highest severities and counts the others by function.

``SpoolWriter`` and ``SpoolReader`` are its two ends; ``SpoolDelivery`` knows which frames are under way to
the store and which have arrived.
"""

from __future__ import annotations

import fcntl
import itertools
import math
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from chimbuko.core.calls.record import CounterStatistics, Metadata, StepCount, StreamHealth
from chimbuko.core.calls.recordarrays import HEAD, PackedRecords, joined
from chimbuko.runtime.protocol.messages import PathTimes, RecordBatch

FRAME = struct.Struct("<IQ")
"""Head of each frame: its length, and its sequence number."""
SUFFIX = ".spool"


def spools_in(folder: Path) -> list[Path]:
    """Return all spools under ``folder`` that hold anything."""
    return sorted({path.parent for path in folder.rglob(f"*{SUFFIX}") if path.stat().st_size})


def remove_acknowledged(folder: Path, sequence: int) -> None:
    """Remove segments all of whose frames are acknowledged, except the last, which is being written."""
    paths = segment_paths(folder)
    if len(paths) < 2 or first_sequence(paths[1]) > sequence + 1:
        return
    with locked(folder):
        for path, following in itertools.pairwise(paths):
            if first_sequence(following) <= sequence + 1:
                path.unlink(missing_ok=True)


def segment_paths(folder: Path) -> list[Path]:
    """Return the segments of a spool, oldest first."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def first_sequence(path: Path) -> int:
    """Return the sequence number of the first frame of a segment."""
    return int(path.stem)


def frames_of(path: Path, offset: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the frames of a segment from a byte offset on: (offset after it, sequence, content)."""
    with path.open("rb") as file:
        file.seek(offset)
        content = file.read()
    at = 0
    while at + FRAME.size <= len(content):
        length, sequence = FRAME.unpack_from(content, at)
        end = at + FRAME.size + length
        # The last frame may be half written, for now or, after a kill, for ever.
        if end > len(content):
            return
        yield offset + end, sequence, content[at + FRAME.size : end]
        at = end


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a spool: compaction and removal exclude each other."""
    # The lock is on the folder itself: on a full disk there is no room for a file, and to remove must not
    # need any.
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


_TEMPORARY_SUFFIX = ".tmp"
SEGMENT_BYTES = 1 << 20
MOST_HELD_BYTES = 2 << 20
"""Maximum size of records kept in memory while the disk is full; of more, the severe half is kept."""
MOST_OWED_STEPS = 100_000
"""Maximum number of step counts kept meanwhile, 10 MB; of more, the newest are kept."""
_UNKNOWN_US = 0.0
"""Severity assumed for a segment that an earlier process left: low, so that the segment is looked into."""

_encoder = msgspec.msgpack.Encoder()
_batches = msgspec.msgpack.Decoder(RecordBatch)


class SpoolFrame(msgspec.Struct, frozen=True):
    """Findings of some steps of a stream."""

    records: PackedRecords
    steps: list[StepCount]
    metadata: list[Metadata]
    health: StreamHealth
    counter_statistics: list[CounterStatistics] = msgspec.field(default_factory=list)
    """Statistics of all counters, where they are due."""
    left_out: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of abnormal calls of each function that are not recorded."""
    paths: PathTimes | None = None
    """Runtimes by call path, at the end of the stream."""

    def batch(self, stream: str, sequence: int, dropped: Mapping[str, int]) -> RecordBatch:
        """Return the frame as it goes to the store.

        Parameters
        ----------
        stream
            Key of the stream.
        dropped
            Number of abnormal calls of each function that are not recorded, since the stream began.
        """
        return RecordBatch(
            stream=stream,
            sequence=sequence,
            records=self.records,
            steps=self.steps,
            metadata=self.metadata,
            health=self.health,
            dropped=dict(dropped),
            counter_statistics=self.counter_statistics,
            paths=self.paths,
        )


class _Segment(msgspec.Struct):
    path: Path
    size_bytes: int
    severities_us: list[float]


class SpoolWriter:
    """Writing end of a spool, in the stream's process.

    Parameters
    ----------
    folder
        Folder, made if needed; what an earlier process left there is kept, and its numbering continued.
    stream
        Key of the stream, which becomes part of each frame.
    limit_bytes
        Size beyond which records of low severity are dropped and counted.
    """

    def __init__(self, folder: Path, stream: str, limit_bytes: int) -> None:
        self._folder = folder
        # A full disk may have room again when there is something to write.
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        self._stream = stream
        self._limit_bytes = limit_bytes
        self._least_us = -1.0
        for leftover in folder.glob(f"*{_TEMPORARY_SUFFIX}"):
            leftover.unlink()
        self._segments = [
            _Segment(path, path.stat().st_size, [_UNKNOWN_US]) for path in segment_paths(folder)
        ]
        self._current: _Segment | None = None
        self._held: list[PackedRecords] = []
        self._owed_steps: list[StepCount] = []
        self._owed_metadata: list[Metadata] = []
        self._sequence = 0
        self.dropped: Counter[str] = Counter()
        """Number of abnormal calls of each function that are not recorded, since the stream began; it is in
        every frame.
        """
        self.has_room = True
        """Whether nothing waits in memory."""
        self.lost_records = 0
        """Number of records of abnormal calls for which there was no room; they are among ``dropped``."""
        self.lost_steps = 0
        """Number of step counts for which there was no room."""
        self.health: StreamHealth | None = None
        """Totals of the stream as of the last frame; None before there is one."""
        if self._segments:
            self._continue_after(self._segments[-1])

    @property
    def next_sequence(self) -> int:
        """Sequence number of the next frame."""
        return self._sequence + 1

    def append(self, frame: SpoolFrame) -> None:
        """Add one frame, without the records for which there is no room.

        Frames that do not fit on a full disk wait for the next one, within limits.
        """
        self._catch_up()
        self._make_room()
        kept, lost = self._severe(frame.records)
        self.dropped.update(frame.left_out)
        self.dropped += lost
        self._owed_steps += frame.steps
        self._owed_metadata += frame.metadata
        waiting = [*self._held, kept] if kept.heads else self._held
        written = len(waiting)
        while not self._is_written(waiting[:written], frame):
            if not written:
                break
            # There may be room for a part, even if only for the totals.
            written //= 2
        self._hold(waiting[written:])

    def _is_written(self, parts: list[PackedRecords], frame: SpoolFrame) -> bool:
        """Write the frame with these records; return False where there is no room for that."""
        whole = replace(
            frame,
            records=joined(parts) if len(parts) > 1 else next(iter(parts), PackedRecords()),
            steps=self._owed_steps,
            metadata=self._owed_metadata,
        )
        batch = whole.batch(self._stream, self.next_sequence, self.dropped)
        try:
            self._write(batch, self._has_to_begin_segment())
        except OSError:
            return False
        self._owed_steps = []
        self._owed_metadata = []
        self._sequence += 1
        return True

    def give_up_held(self) -> None:
        """Count what waits in memory as lost, when the process is about to end."""
        for records in self._held:
            self.lose(records)
        self._held = []
        self.lost_steps += len(self._owed_steps)
        self._owed_steps = []

    def _hold(self, waiting: list[PackedRecords]) -> None:
        """Keep in memory what does not fit on the disk."""
        self.has_room = not (waiting or self._owed_steps)
        if sum(len(_encoder.encode(records)) for records in waiting) > MOST_HELD_BYTES:
            records = joined(waiting)
            severities_us = records.head_rows().severity_us
            # Strictly above the median: of records that are all alike, none is left rather than all.
            is_kept = severities_us > np.median(severities_us)
            self.lose(records.only(~is_kept))
            waiting = [records.only(is_kept)]
        self._held = waiting
        forgotten = max(len(self._owed_steps) - MOST_OWED_STEPS, 0)
        self.lost_steps += forgotten
        del self._owed_steps[:forgotten]

    def lose(self, records: PackedRecords) -> None:
        """Count records for which there is no room."""
        lost = _abnormal_calls(records)
        self.dropped += lost
        self.lost_records += lost.total()

    def _catch_up(self) -> None:
        """Continue after frames that another process has appended: an agent reports for a process that it has
        given up.
        """
        if self._is_last:
            return
        paths = segment_paths(self._folder)
        if self._current is not None and self._current.path not in paths:
            self._current = None
        if not paths:
            return
        known = {segment.path: segment.size_bytes for segment in self._segments}
        if known.get(paths[-1]) != paths[-1].stat().st_size:
            self._segments = [s for s in self._segments if s.path in paths and s.path != paths[-1]]
            self._segments.append(_Segment(paths[-1], 0, []))
            self._continue_after(self._segments[-1])

    @property
    def _is_last(self) -> bool:
        """Return whether this process knows all frames: a segment of another one has the number of the
        next.
        """
        current = self._current
        try:
            is_same = current is not None and os.stat(current.path).st_size == current.size_bytes
        except FileNotFoundError:
            return False
        return is_same and not os.path.exists(self._segment_path(self.next_sequence))

    def _segment_path(self, sequence: int) -> str:
        return f"{self._folder}/{sequence:016d}{SUFFIX}"

    def _continue_after(self, segment: _Segment) -> None:
        """Continue where an earlier process was killed, which may have been in mid-frame."""
        # The segment is named by its first frame, even if that was never completed.
        self._sequence = first_sequence(segment.path) - 1
        end = 0
        severities_us: list[float] = []
        for behind, sequence, frame in frames_of(segment.path, 0):
            batch = _batches.decode(frame)
            end, self._sequence, self.dropped = behind, sequence, Counter(batch.dropped)
            severities_us += _severities_us(batch.records)
            self.health = batch.health
        os.truncate(segment.path, end)
        segment.size_bytes, segment.severities_us = end, severities_us
        self._current = segment

    def _severe(self, records: PackedRecords) -> tuple[PackedRecords, Counter[str]]:
        """Return the records to keep, and the number of abnormal calls of each function among the others."""
        if self._least_us < 0:
            return records, Counter()
        is_kept = records.head_rows().severity_us >= self._least_us
        return records.only(is_kept), _abnormal_calls(records.only(~is_kept))

    def _has_to_begin_segment(self) -> bool:
        current = self._current
        return current is None or current.size_bytes >= SEGMENT_BYTES

    def _write(self, batch: RecordBatch, is_new: bool) -> None:
        """Write a frame, into a new segment or into the current one."""
        current = self._current
        if is_new or current is None:
            self._forget_removed()
            current = _Segment(Path(self._segment_path(batch.sequence)), 0, [])
            self._segments.append(current)
            self._current = current
        frame = _encoder.encode(batch)
        file = self._opened(current.path)
        try:
            _write_all(file, FRAME.pack(len(frame), batch.sequence) + frame)
        except OSError:
            # Half a frame would hide all that follow it.
            os.ftruncate(file, current.size_bytes)
            raise
        finally:
            os.close(file)
        current.size_bytes += FRAME.size + len(frame)
        current.severities_us += _severities_us(batch.records)

    def _opened(self, path: Path) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            return os.open(path, flags, 0o666)
        except FileNotFoundError:
            self._folder.mkdir(parents=True, exist_ok=True)
            return os.open(path, flags, 0o666)

    def _forget_removed(self) -> None:
        """Forget segments that were acknowledged and removed."""
        self._segments = [segment for segment in self._segments if segment.path.exists()]

    def _make_room(self) -> None:
        """Compact one segment per call while over the limit: the stream must be drained in between."""
        size_bytes = sum(segment.size_bytes for segment in self._segments)
        if size_bytes > self._limit_bytes // 2:
            self._forget_removed()
            size_bytes = sum(segment.size_bytes for segment in self._segments)
        if size_bytes <= self._limit_bytes // 2:
            self._least_us = -1.0
        if size_bytes <= self._limit_bytes:
            return
        severities_us = np.concatenate([segment.severities_us for segment in self._segments])
        if len(severities_us):
            least_us = float(np.median(severities_us))
            if least_us <= float(severities_us.min()):
                # At least half are the least severe of all: these go, or nothing would.
                least_us = math.nextafter(least_us, math.inf)
            self._least_us = max(self._least_us, least_us)
        candidates = (
            s for s in self._segments[:-1] if min(s.severities_us, default=math.inf) < self._least_us
        )
        segment = next(candidates, None)
        if segment is not None:
            try:
                self._compact(segment)
            except OSError:
                # A disk without room for the smaller file keeps the larger one.
                segment.path.with_suffix(_TEMPORARY_SUFFIX).unlink(missing_ok=True)

    def _compact(self, segment: _Segment) -> None:
        with locked(self._folder):
            if not segment.path.exists():
                return
            temporary = segment.path.with_suffix(_TEMPORARY_SUFFIX)
            severities_us: list[float] = []
            dropped: Counter[str] = Counter()
            with temporary.open("wb") as file:
                for _, sequence, frame in frames_of(segment.path, 0):
                    batch = _batches.decode(frame)
                    kept, lost = self._severe(batch.records)
                    dropped += lost
                    severities_us += _severities_us(kept)
                    smaller = _encoder.encode(msgspec.structs.replace(batch, records=kept))
                    file.write(FRAME.pack(len(smaller), sequence) + smaller)
                size_bytes = file.tell()
            os.replace(temporary, segment.path)
            segment.size_bytes, segment.severities_us = size_bytes, severities_us
            self.dropped += dropped


class SpoolReader:
    """Reading end of a spool, in the agent: frames in order, from wherever it is asked to continue."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._offset = 0
        self._last = b""
        """Head of the frame that ends at ``_offset``."""
        self._sequence = 0

    @property
    def is_drained(self) -> bool:
        """Return whether there is nothing more to read at the moment."""
        return all(sequence <= self._sequence for _, _, sequence, _ in self._frames_ahead())

    def read(self, most_bytes: int) -> list[tuple[int, bytes]]:
        """Return the next frames, as (sequence, encoded ``RecordBatch``), until they exceed
        ``most_bytes``.
        """
        found: list[tuple[int, bytes]] = []
        size_bytes = 0
        for path, end, sequence, frame in self._frames_ahead():
            if size_bytes > most_bytes:
                break
            self._path, self._offset, self._last = path, end, FRAME.pack(len(frame), sequence)
            if sequence > self._sequence:
                size_bytes += len(frame)
                self._sequence = sequence
                found.append((sequence, frame))
        return found

    def rewind(self, sequence: int) -> None:
        """Continue after the frame ``sequence``: what follows will be read again."""
        self._sequence = sequence
        self._path = None

    def _frames_ahead(self) -> Iterator[tuple[Path, int, int, bytes]]:
        for path in segment_paths(self._folder):
            if self._path is not None and path < self._path:
                continue
            try:
                for end, sequence, frame in frames_of(path, self._offset if self._is_at(path) else 0):
                    yield path, end, sequence, frame
            except FileNotFoundError:
                continue

    def _is_at(self, path: Path) -> bool:
        """Return whether the last frame still stands where it was read: compaction rewrites segments."""
        if path != self._path:
            return False
        length, _ = FRAME.unpack(self._last)
        with path.open("rb") as file:
            file.seek(self._offset - length - FRAME.size)
            return file.read(FRAME.size) == self._last


def _abnormal_calls(records: PackedRecords) -> Counter[str]:
    """Return the number of abnormal calls by function; a second revision is no second call."""
    heads = records.head_rows()
    is_counted = (heads.is_anomaly != 0) & (heads.revision == 1)
    functions, counts = np.unique(heads.function[is_counted], return_counts=True)
    found = zip(functions.tolist(), counts.tolist(), strict=True)
    return Counter({records.functions[function]: count for function, count in found})


def _severities_us(records: PackedRecords) -> list[float]:
    severities_us: list[float] = np.frombuffer(records.heads, HEAD)["severity_us"].tolist()
    return severities_us


def _write_all(file: int, content: bytes) -> None:
    """Write all of it, or raise ``OSError``: a disk that fills up takes a part first."""
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


class SpoolDelivery:
    """State of the delivery of one spool to the store.

    Parameters
    ----------
    key
        Key under which the store acknowledges the spool's frames.
    folder
        Folder of the spool; it need not exist yet.
    """

    def __init__(self, key: str, folder: Path) -> None:
        self.key = key
        self.folder = folder
        self.acknowledged = 0
        """Last frame that is in the store."""
        self._reader = SpoolReader(folder)
        self._in_flight: dict[int, int] = {}

    @property
    def in_flight_bytes(self) -> int:
        """Size of the frames sent and not yet acknowledged."""
        return sum(self._in_flight.values())

    @property
    def is_waiting(self) -> bool:
        """Whether any frame is on its way."""
        return bool(self._in_flight)

    @property
    def is_delivered(self) -> bool:
        """Return whether all that is in the spool is also in the store."""
        return not self._in_flight and self._reader.is_drained

    def take(self, most_bytes: int) -> list[tuple[int, bytes]]:
        """Return the next frames to send, as (sequence, encoded ``RecordBatch``), until they exceed
        ``most_bytes``.
        """
        frames = self._reader.read(most_bytes)
        self._in_flight |= {sequence: len(frame) for sequence, frame in frames}
        return frames

    def arrived(self, sequence: int) -> None:
        """Note that all frames up to ``sequence`` are in the store."""
        if sequence <= self.acknowledged:
            return
        self.acknowledged = sequence
        self._in_flight = {sent: size for sent, size in self._in_flight.items() if sent > sequence}
        remove_acknowledged(self.folder, sequence)

    def send_again(self) -> None:
        """Send everything again that was on its way and may be lost."""
        self._in_flight.clear()
        self._reader.rewind(self.acknowledged)
