"""Notices programs that write as the same rank of the same program: only one of them can be analysed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from chimbuko.trace.discovery import CONTACT_SUFFIX, StreamName, Transport, find_live


class Collisions:
    """Watches the folder in which the streams of a run appear.

    A stream's contact file stays as it is until its program ends, so a newer one, or one that stands
    for the same rank, is another program's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owners: dict[tuple[str, int], tuple[Path, int]] = {}
        self._known: set[tuple[str, int]] = set()

    @property
    def streams_seen(self) -> int:
        """How many streams have appeared."""
        return len(self._owners)

    def news(self) -> list[str]:
        """One line for each rank that turned out to be written by several programs since the last call."""
        lines = []
        for stream, transport in find_live(self._folder):
            if transport is not Transport.SST:
                continue
            key = stream.program, stream.rank
            # It may be gone by now.
            with suppress(OSError):
                contact = stream.path.with_name(stream.path.name + CONTACT_SUFFIX)
                owner = stream.path, contact.stat().st_mtime_ns
                if self._owners.setdefault(key, owner) != owner and key not in self._known:
                    self._known.add(key)
                    lines.append(_advice(stream))
        return lines


def _advice(stream: StreamName) -> str:
    return (
        f"several programs write the stream of {stream.program}, rank {stream.rank}; only one was analysed: "
        "number them, as with TAU_ADIOS2_FILENAME=$TAU_ADIOS2_FILENAME.1 for the one that shall be rank 1"
    )
