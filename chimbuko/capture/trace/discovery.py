"""Discovery of trace streams by TAU's file names: ``<prefix>-<executable>-<rank>.bp``.

Several instances of a program without MPI all take themselves for rank 0, and all programs that an
interpreter runs have its name. So the prefix may go on: ``tau-metrics.4-app-2.bp`` is rank 6 of ``app``,
``tau-metrics.train-python3-0.bp`` is rank 0 of ``train``, and both go together as ``tau-metrics.train.4``.

No other module knows the names of ADIOS2's engines. A traced program reads them, so little is loaded here,
and no package that its Python may not have.
"""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from chimbuko.core.errors import TraceFormatError

SST: Final = "SST"
BP_FILE: Final = "BPFile"
"""Reads BP4 and BP5, and writes the newest."""
BP5: Final = "BP5"
ENGINES: Final = (SST, "BP4", BP5)
"""Engines by which a stream can be written."""


CONTACT_SUFFIX = ".sst"
READ_SUFFIX = ".read"
"""Suffix of the empty file that a reader over SST puts beside the contact file once it has read its first
step.
"""
TAU_IO_NAME: Final = "TAU trace data"
"""Name of TAU's ADIOS2 IO object, under which its configuration file holds the engine's settings."""
STREAM_PREFIX = "tau-metrics"

_RANK = r"0|[1-9]\d{0,8}"
_EXECUTABLE_AND_RANK = rf"-(?P<program>.+)-(?P<rank>{_RANK})\.bp"
_INSTANCE = rf"(?:\.(?P<name>[A-Za-z_]\w*))?(?:\.(?P<first>{_RANK}))?"
_OTHER_STREAM = re.compile(".+?" + _EXECUTABLE_AND_RANK)


class Transport(StrEnum):
    """Way by which a stream comes to its reader."""

    FILES = "files"
    """Into files on the application's node, which are followed."""
    SST = "sst"
    """Stream from the application's memory, over the network."""
    RECORDED = "recorded"
    """Stream from files that were recorded earlier."""


class StreamName(NamedTuple):
    """Path of one stream, and its program and rank."""

    program: str
    """Executable's base name, or the name that stands in its place in the prefix."""
    rank: int
    """Rank in the run: the rank that the stream's rows carry, and ``first_rank``."""
    path: Path
    """Ends in ``.bp``; over SST no such file exists, only its contact file."""
    first_rank: int = 0
    """Rank in the run of what takes itself for rank 0."""

    @property
    def file_name(self) -> str:
        """A name by which the stream is found again as the same program and rank."""
        instance = f".{self.first_rank}" if self.first_rank else ""
        return f"{STREAM_PREFIX}{instance}-{self.program}-{self.rank - self.first_rank}.bp"


def parse_stream_path(path: Path, prefix: str = STREAM_PREFIX) -> StreamName | None:
    """Return the program and rank of a stream, or None if the name is not one of TAU's."""
    name = path.name.removesuffix(CONTACT_SUFFIX)
    path = path.with_name(name)
    if match := re.fullmatch(re.escape(prefix) + _INSTANCE + _EXECUTABLE_AND_RANK, name):
        first_rank = int(match["first"] or 0)
        return StreamName(
            match["name"] or match["program"], first_rank + int(match["rank"]), path, first_rank
        )
    if match := _OTHER_STREAM.fullmatch(name):
        return StreamName(match["program"], int(match["rank"]), path)
    return None


def has_prefix(name: str, prefix: str = STREAM_PREFIX) -> bool:
    """Whether a file of this name can belong to a stream with a prefix."""
    return name.startswith((f"{prefix}-", f"{prefix}."))


def read_mark_of(stream: Path) -> Path:
    """Return the path where a reader over SST marks that it has read the first step: the writer may be
    waiting for that.
    """
    return stream.with_name(stream.name + READ_SUFFIX)


def find_recorded(patterns: Sequence[str]) -> list[StreamName]:
    """Recorded streams that match any of the shell patterns, sorted by program and rank.

    Where two folders hold the same rank of a program, they hold two instances of it: the ranks of the
    second, in order of the patterns, follow those of the first.

    Raises
    ------
    TraceFormatError
        A pattern matches nothing, or a match is not named like a stream.
    """
    streams: dict[Path, StreamName] = {}
    for pattern in patterns:
        paths = [Path(path) for path in sorted(glob.glob(pattern))]
        if not paths:
            raise TraceFormatError(
                f"{pattern}: no trace stream matches; give a pattern like 'DIR/tau-metrics-*.bp'"
            )
        for path in paths:
            stream = parse_stream_path(path)
            if stream is None:
                raise TraceFormatError(
                    f"{path}: not named <prefix>-<executable>-<rank>.bp, so its rank is unknown"
                )
            streams.setdefault(path.resolve(), stream)
    return sorted(_told_apart(list(streams.values())))


def _told_apart(streams: list[StreamName]) -> list[StreamName]:
    """Give instances that share a rank of a program ranks of their own."""
    instances: dict[str, dict[tuple[Path, str], list[StreamName]]] = defaultdict(lambda: defaultdict(list))
    for stream in streams:
        prefix = stream.path.name.rpartition("-")[0]
        instances[stream.program][stream.path.parent, prefix].append(stream)
    return [stream for of_program in instances.values() for stream in with_ranks_apart(of_program.values())]


def with_ranks_apart(groups: Iterable[Sequence[StreamName]]) -> list[StreamName]:
    """Return the streams of all groups: the ranks of one that shares any with those before it follow
    theirs.
    """
    taken: set[int] = set()
    apart: list[StreamName] = []
    for group in groups:
        shift = max(taken) + 1 if any(stream.rank in taken for stream in group) else 0
        moved = [
            stream._replace(rank=stream.rank + shift, first_rank=stream.first_rank + shift)
            for stream in group
        ]
        taken.update(stream.rank for stream in moved)
        apart += moved
    return apart


def find_live(folder: Path, prefix: str = STREAM_PREFIX) -> list[tuple[StreamName, Transport]]:
    """Return the streams that are being written into ``folder``, or whose SST contact file stands there,
    sorted by program and rank.
    """
    found = []
    for name in os.listdir(folder):
        transport = Transport.SST if name.endswith(CONTACT_SUFFIX) else Transport.FILES
        path = folder / name.removesuffix(CONTACT_SUFFIX)
        is_ours = has_prefix(name, prefix) and path.suffix == ".bp"
        if is_ours and (stream := parse_stream_path(path, prefix)) is not None:
            found.append((stream, transport))
    return sorted(found)


def contact_of(stream: Path) -> str:
    """Return what distinguishes the contact file of a stream from one that another program has put in its
    place.
    """
    try:
        return str(stream.with_name(stream.name + CONTACT_SUFFIX).stat().st_mtime_ns)
    except OSError:
        return ""
