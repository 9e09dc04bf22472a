"""File with the names of a stream, in its folder."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

import msgspec

from chimbuko.core.calls.record import Metadata
from chimbuko.core.files import write_atomically
from chimbuko.core.traceschema import StreamNames

NAMES = "names"
"""Name of the file in a stream's folder that has the stream's names."""


class NamesFile:
    """Names of a stream, saved for the agent and for a successor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sizes: tuple[int, ...] = ()

    def load_into(self, names: StreamNames) -> None:
        """Load the names that an earlier process of this stream knew."""
        if self._path.exists():
            known = read_names(self._path)
            names.timers |= known.timers
            names.counters |= known.counters
            names.event_types |= known.event_types
            names.metadata |= known.metadata
            names.program = known.program
            names.share_timers_to(known.last_timer)

    def save(self, names: StreamNames) -> bool:
        """Save the names atomically; return False if nothing is new. Raises ``OSError`` where there is no
        room.
        """
        sizes = (len(names.timers), len(names.counters), len(names.event_types), len(names.metadata))
        if sizes == self._sizes:
            return False
        write_atomically(self._path, msgspec.msgpack.encode(names))
        self._sizes = sizes
        return True


def read_names(path: Path) -> StreamNames:
    """Return the names that a stream's process saved."""
    return msgspec.msgpack.decode(path.read_bytes(), type=StreamNames)


def new_metadata(names: StreamNames, known: Set[tuple[int, int, str]], program: int) -> list[Metadata]:
    """Return a stream's metadata whose keys are not among those ``known``."""
    new = names.metadata.keys() - known if len(names.metadata) > len(known) else ()
    return [
        Metadata(program, rank, thread, key, names.metadata[rank, thread, key])
        for rank, thread, key in sorted(new)
    ]
