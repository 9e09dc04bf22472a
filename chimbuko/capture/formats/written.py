"""All formats that traces can be written in, by the ends of file names."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final, Protocol

from chimbuko.capture.formats.moments import Moment
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import StreamNames


class TraceWriter(Protocol):
    """Writes one file, rank by rank."""

    def begin_rank(self, rank: int, name: str) -> None:
        """Begin the rank that everything that follows belongs to."""

    def write(self, moments: Iterable[Moment], names: StreamNames) -> None:
        """Write the next events of the rank."""

    def close(self) -> None:
        """Write its end; the file stays open."""


FORMATS: Final = {
    ".json": ("chromewriter", "Writer"),
    ".pfw": ("chromewriter", "PerfFlowAspectWriter"),
    ".pftrace": ("perfettowriter", "Writer"),
    ".perfetto-trace": ("perfettowriter", "Writer"),
    ".txt": ("textwriter", "Writer"),
}


def is_known(path: Path) -> bool:
    """Whether a file of this name can be written."""
    return path.suffix in FORMATS


def writer_of(path: Path, file: IO[bytes]) -> TraceWriter:
    """Return a writer into an open file, by its name.

    Raises
    ------
    TraceFormatError
        What it needs is not installed.
    """
    module, name = FORMATS[path.suffix]
    try:
        loaded = importlib.import_module(f"chimbuko.capture.formats.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("chimbuko"):
            raise
        raise TraceFormatError(f"{path}: to write it, pip install 'chimbuko[perfetto]'") from error
    writer: TraceWriter = getattr(loaded, name)(file)
    return writer
