"""The names of a stream, in a file of its folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chimbuko.core.calls.record import Metadata
from chimbuko.core.files import write_atomically
from chimbuko.core.traceschema import StreamNames

NAMES = "names"
"""File of a stream's folder with its names."""


class NamesFile:
    """The stream's names, for the agent, and for a successor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sizes: tuple[int, ...] = ()

    def load_into(self, names: StreamNames) -> None:
        """Fill in what an earlier process of this stream knew."""
        if self._path.exists():
            known = read_names(self._path)
            names.timers |= known.timers
            names.counters |= known.counters
            names.event_types |= known.event_types
            names.metadata |= known.metadata
            names.program = known.program

    def save(self, names: StreamNames) -> bool:
        """Write atomically; False if nothing is new. Raises ``OSError`` where there is no room."""
        sizes = (len(names.timers), len(names.counters), len(names.event_types), len(names.metadata))
        if sizes == self._sizes:
            return False
        write_atomically(self._path, msgspec.msgpack.encode(names))
        self._sizes = sizes
        return True


def read_names(path: Path) -> StreamNames:
    """The names that a stream's process saved."""
    return msgspec.msgpack.decode(path.read_bytes(), type=StreamNames)


def new_metadata(names: StreamNames, known: set[tuple[int, int, str]], program: int) -> list[Metadata]:
    """What of a stream's metadata is not among the keys that are ``known``."""
    new = names.metadata.keys() - known if len(names.metadata) > len(known) else ()
    return [
        Metadata(program, rank, thread, key, names.metadata[rank, thread, key])
        for rank, thread, key in sorted(new)
    ]
