"""Recorded streams that a run was made of, noted in its folder: the whole of them can be shown later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from chimbuko.capture.trace.discovery import StreamName, find_recorded
from chimbuko.core.files import contents
from chimbuko.runtime.runs.directory import RunDirectory

Stamp = tuple[int, int]


class RecordedStream(msgspec.Struct, frozen=True):
    """One stream, as ``StreamName`` has it."""

    program: str
    rank: int
    path: str
    """Absolute."""
    first_rank: int


def note_recorded(run: RunDirectory, streams: Sequence[StreamName]) -> None:
    """Write down where the streams of a run are."""
    noted = [
        RecordedStream(stream.program, stream.rank, str(stream.path.absolute()), stream.first_rank)
        for stream in streams
    ]
    run.recorded_path.write_bytes(msgspec.json.format(msgspec.json.encode(noted)))


def recorded_streams(run: RunDirectory) -> list[StreamName]:
    """Return the streams of a run that lie where they were noted, or in the run's own folder for traces."""
    beside = run.trace / "*.bp"
    if not run.recorded_path.exists():
        return find_recorded([str(beside)]) if any(run.trace.glob("*.bp")) else []
    try:
        noted = msgspec.json.decode(contents(run.recorded_path), type=list[RecordedStream])
    except (OSError, msgspec.MsgspecError):
        return []
    streams = [StreamName(one.program, one.rank, Path(one.path), one.first_rank) for one in noted]
    return [stream for stream in streams if stream.path.exists()]


def stamp_of(path: Path) -> Stamp:
    """Changes when a recorded stream does: time of its last change in ns, and bytes."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    stats = [file.stat() for file in files]
    return max((stat.st_mtime_ns for stat in stats), default=0), sum(stat.st_size for stat in stats)
