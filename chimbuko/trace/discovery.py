"""Finds trace streams by TAU's file names: ``<prefix>-<executable>-<rank>.bp``."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from pathlib import Path

from chimbuko.errors import TraceFormatError

_STREAM_NAME = re.compile(r"^(?P<prefix>.+?)-(?P<program>.+)-(?P<rank>\d+)\.bp$")
CONTACT_SUFFIX = ".sst"
STREAM_PREFIX = "tau-metrics"


@dataclass(frozen=True, order=True)
class StreamName:
    """Where one stream is and whose it is."""

    program: str
    """Executable's base name."""
    rank: int
    path: Path
    """Ends in ``.bp``; over SST no such file exists, only its contact file."""


def parse_stream_path(path: Path, prefix: str = STREAM_PREFIX) -> StreamName | None:
    """Program and rank of a stream, or None where the name is not one of TAU's."""
    name = path.name.removesuffix(CONTACT_SUFFIX)
    if name.startswith(prefix + "-"):
        rest = name[len(prefix) + 1 :]
        program, _, tail = rest.rpartition("-")
        rank = tail.removesuffix(".bp")
        if program and tail.endswith(".bp") and rank.isdigit():
            return StreamName(program, int(rank), path.with_name(name))
    match = _STREAM_NAME.match(name)
    if match is None:
        return None
    return StreamName(match["program"], int(match["rank"]), path.with_name(name))


def find_recorded(pattern: str) -> list[StreamName]:
    """Recorded streams that match a shell pattern, sorted by program and rank.

    Raises
    ------
    TraceFormatError
        Nothing matches, or a match is not named like a stream.
    """
    paths = [Path(path) for path in sorted(glob.glob(pattern))]
    if not paths:
        raise TraceFormatError(
            f"{pattern}: no trace stream matches; give a pattern like 'DIR/tau-metrics-*.bp'"
        )
    streams = []
    for path in paths:
        stream = parse_stream_path(path)
        if stream is None:
            raise TraceFormatError(
                f"{path}: not named <prefix>-<executable>-<rank>.bp, so its rank is unknown"
            )
        streams.append(stream)
    return sorted(streams)


def find_live(folder: Path, prefix: str = STREAM_PREFIX) -> list[StreamName]:
    """Streams whose SST contact file stands in ``folder`` now, sorted by program and rank."""
    found = (
        parse_stream_path(path, prefix) for path in folder.glob(f"{glob.escape(prefix)}-*.bp{CONTACT_SUFFIX}")
    )
    return sorted(stream for stream in found if stream is not None)
