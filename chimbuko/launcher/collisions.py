"""Notices programs that write one stream at the same time: only one of them can be analysed.

Those that write it one after the other are instances, and no matter (``chimbuko.ad.streams.arrivals``).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from chimbuko.capture.follow.steps import INDEX, is_closed
from chimbuko.capture.trace.discovery import CONTACT_SUFFIX, StreamName, Transport, find_live


@dataclass
class _Followed:
    """A stream in files, as it was when it was last looked at."""

    number: int = 0
    """Of its index, in the file system."""
    size: int = 0
    changed_ns: int = 0
    is_closed: bool = False

    def is_written_anew(self, index: Path) -> bool:
        """Whether another program has begun to write it since the last look."""
        if index.stat().st_mtime_ns == self.changed_ns:
            return False
        before = replace(self)
        # In this order: what is closed does not change any more.
        self.is_closed = is_closed(index)
        state = index.stat()
        self.number, self.size, self.changed_ns = state.st_ino, state.st_size, state.st_mtime_ns
        return self.number == before.number and (before.is_closed or self.size < before.size)


class Collisions:
    """Watches the folder in which the streams of a run appear.

    The index of a stream in files only grows, and is as it is once its program has closed it; an instance
    that follows has another one. Two paths that stand for the same rank are two programs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owners: dict[tuple[str, int], Path] = {}
        self._followed: dict[Path, _Followed] = {}
        self._contacts: set[tuple[Path, int]] = set()
        self._known: set[tuple[str, int]] = set()

    @property
    def streams_seen(self) -> int:
        """How many streams over SST have appeared."""
        return len(self._contacts)

    def news(self) -> list[str]:
        """One line for each rank that turned out to be written by several programs since the last call."""
        lines: list[str] = []
        try:
            found = find_live(self._folder)
        except FileNotFoundError:
            # Its guard removes it when the program has ended, and an agent that was stopped may come later.
            return lines
        for stream, transport in found:
            key = stream.program, stream.rank
            # It may be gone by now.
            with suppress(OSError):
                if self._is_shared(stream, transport) and key not in self._known:
                    self._known.add(key)
                    lines.append(_advice(stream))
        return lines

    def _is_shared(self, stream: StreamName, transport: Transport) -> bool:
        path = stream.path
        has_another = self._owners.setdefault((stream.program, stream.rank), path) != path
        if transport is Transport.SST:
            contact = path.with_name(path.name + CONTACT_SUFFIX)
            self._contacts.add((path, contact.stat().st_mtime_ns))
            return has_another
        followed = self._followed.setdefault(path, _Followed())
        return followed.is_written_anew(path / INDEX) or has_another


def _advice(stream: StreamName) -> str:
    return (
        f"several programs write the stream of {stream.program}, rank {stream.rank}, at the same time; only "
        "one was analysed: "
        "number them, as with TAU_ADIOS2_FILENAME=$TAU_ADIOS2_FILENAME.1 for the one that shall be rank 1"
    )
