"""Discovery of the streams of a node as they appear, and of programs that run again under the same path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from chimbuko.capture.follow.instances import FIRST_RANK, aside_of, first_rank_of, number, parse_aside
from chimbuko.capture.follow.steps import INDEX, is_closed
from chimbuko.capture.trace.discovery import (
    CONTACT_SUFFIX,
    StreamName,
    Transport,
    contact_of,
    has_prefix,
    parse_stream_path,
)

CONTACT_LOOKS = 4
"""Number of looks of which one asks for new contact files. A program that is killed leaves its contact file,
and the next one puts its own in its place; the files may be on a network file system.
"""


class Arrival(msgspec.Struct, frozen=True):
    """A stream that has appeared."""

    name: StreamName
    """Name of the stream as its path says; with ``first_rank`` where that is known."""
    transport: Transport
    is_numbered: bool
    """Whether it is known which instance of its program the stream belongs to."""
    is_further: bool
    """Whether an earlier instance of its program had the same path."""
    contact: str = ""
    """Identity of its contact file, different for another instance."""

    def as_instance(self, first_rank: int) -> StreamName:
        """Return the name of the stream when its rank 0 has this rank in the run."""
        rank = self.name.rank - self.name.first_rank
        return self.name._replace(rank=rank + first_rank, first_rank=first_rank)


class Instance(msgspec.Struct, frozen=True):
    """An instance of a program, as far as its streams have appeared."""

    number: int = 0
    arrivals: tuple[Arrival, ...] = ()

    @property
    def ranks(self) -> set[int]:
        """Ranks that have appeared, as the program counts them."""
        return {arrival.name.rank - arrival.name.first_rank for arrival in self.arrivals}


class _Path(msgspec.Struct):
    """State of one path."""

    first_ranks: set[int] = msgspec.field(default_factory=set)
    contacts: set[str] = msgspec.field(default_factory=set)
    is_free: bool = False
    """Whether the files of its last instance were set aside, or its contact file was removed."""


class Arrivals:
    """Streams in the folder of a node.

    Parameters
    ----------
    index, count
        Index of this agent, and number of agents: the ranks, as the paths name them, are dealt out among
        them.
    is_ours
        Whether programs write there with our settings: files of others stay as they are, and are taken for
        one instance each.
    """

    def __init__(self, folder: Path, index: int, count: int, is_ours: bool) -> None:
        self._folder = folder
        self._index, self._count = index, count
        self._is_ours = is_ours
        self._paths: dict[Path, _Path] = {}
        self._looks = 0
        self._settled: list[str] = []
        """Names in the folder when all that they are was taken, and none could become another stream."""

    def look(self) -> list[Arrival]:
        """Return streams that are not taken yet, sorted by program and rank; none if the folder is
        gone.
        """
        self._looks += 1
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        if names == self._settled:
            return []
        contacts = {name for name in names if name.endswith(CONTACT_SUFFIX)}
        for path, known in self._paths.items():
            if known.contacts and path.name + CONTACT_SUFFIX not in contacts:
                known.is_free = True
        # Files that were set aside come first: whether a path is free depends on its current files.
        in_order = sorted(names, key=lambda name: name.endswith(".bp"))
        found = [arrival for name in in_order for arrival in self._arrived(name)]
        is_settled = not (found or contacts or any(known.is_free for known in self._paths.values()))
        # Four times a second there is mostly nothing new, and to look at each of 40 ranks takes 1 ms.
        self._settled = names if is_settled else []
        return sorted(found, key=lambda arrival: arrival.name)

    def take(self, arrival: Arrival, first_rank: int) -> None:
        """Take an arrival, as part of the instance that begins with this rank."""
        known = self._paths.setdefault(arrival.name.path, _Path())
        known.first_ranks.add(first_rank)
        known.is_free = aside_of(arrival.name.path, first_rank).exists()
        if arrival.contact:
            known.contacts.add(arrival.contact)
        if self._is_ours and not arrival.is_numbered:
            # Without permission nothing can be set aside, and later programs overwrite it.
            if arrival.transport is Transport.FILES:
                number(arrival.name.path, first_rank)
            else:
                with suppress(OSError):
                    _mark_of(arrival.name.path, arrival.contact).symlink_to(str(first_rank))

    def is_written(self, arrival: Arrival) -> bool:
        """Return whether the program that writes a stream still does, as of the last look."""
        if arrival.transport is Transport.SST:
            return contact_of(arrival.name.path) == arrival.contact
        path = arrival.name.path
        # Its reader may be far from its end, or not there yet, when the next instance begins.
        with suppress(OSError):
            return not (self._paths[path].is_free or is_closed(path / INDEX))
        return False

    def _arrived(self, name: str) -> Iterator[Arrival]:
        if not has_prefix(name):
            return
        path = self._folder / name
        if name.endswith(CONTACT_SUFFIX):
            yield from self._joined(path)
        elif path.suffix == ".bp":
            yield from self._followed(path)
        elif ".bp." in name and (aside := parse_aside(path)) is not None:
            yield from self._set_aside(*aside)

    def _joined(self, contact_path: Path) -> Iterator[Arrival]:
        path = contact_path.with_name(contact_path.name.removesuffix(CONTACT_SUFFIX))
        known = self._paths.get(path)
        if known is not None and (not self._is_ours or (not known.is_free and self._looks % CONTACT_LOOKS)):
            return
        contact = contact_of(path)
        if not contact or (known is not None and contact in known.contacts):
            return
        try:
            first_rank = int(os.readlink(_mark_of(path, contact)))
        except (OSError, ValueError):
            first_rank = None
        yield from self._named(path, Transport.SST, first_rank, known is not None, contact)

    def _followed(self, path: Path) -> Iterator[Arrival]:
        known = self._paths.get(path)
        if known is None:
            yield from self._named(path, Transport.FILES, first_rank_of(path), is_further=False)
        elif known.is_free and (path / INDEX).exists():
            first_rank = first_rank_of(path)
            if first_rank not in known.first_ranks:
                yield from self._named(path, Transport.FILES, first_rank, is_further=True)

    def _set_aside(self, path: Path, first_rank: int) -> Iterator[Arrival]:
        known = self._paths.setdefault(path, _Path())
        known.is_free = known.is_free or first_rank >= max(known.first_ranks, default=0)
        if first_rank not in known.first_ranks:
            yield from self._named(path, Transport.FILES, first_rank, is_further=False)

    def _named(
        self, path: Path, transport: Transport, first_rank: int | None, is_further: bool, contact: str = ""
    ) -> Iterator[Arrival]:
        name = parse_stream_path(path)
        if name is None or name.rank % self._count != self._index:
            return
        arrival = Arrival(name, transport, first_rank is not None, is_further, contact)
        yield arrival if first_rank is None else replace(arrival, name=arrival.as_instance(first_rank))


def _mark_of(stream: Path, contact: str) -> Path:
    return stream.with_name(f"{stream.name}.{contact}.{FIRST_RANK}")
