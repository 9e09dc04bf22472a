"""Memory mappings of a process."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import UInt64Array

PAGE = 4096
"""Alignment of binaries in memory; larger pages are multiples of this."""


def deduce_base(addresses: Iterable[int], entries: UInt64Array, is_fixed: bool) -> int | None:
    """Return the only base with which a function begins at every address; None if there is none, or several.

    Parameters
    ----------
    addresses
        Addresses in memory at which functions begin.
    entries
        Addresses in the binary at which functions begin, sorted.
    is_fixed
        Whether the binary has a fixed address in memory.
    """
    bases: UInt64Array | None = np.zeros(1, np.uint64) if is_fixed else None
    for address in sorted(set(addresses)):
        if bases is None:
            before = entries[entries <= np.uint64(address)]
            bases = np.unique(np.uint64(address) - before)
            bases = bases[bases % np.uint64(PAGE) == 0]
        bases = bases[_are_in(np.uint64(address) - bases, entries)]
    return int(bases[0]) if bases is not None and len(bases) == 1 else None


def _are_in(values: UInt64Array, held: UInt64Array) -> npt.NDArray[np.bool_]:
    """Return which values a sorted array contains."""
    at = np.searchsorted(held, values)
    found: npt.NDArray[np.bool_] = at < len(held)
    found[found] = held[at[found]] == values[found]
    return found


MAPPED_FILE = "Mapped File"
"""Begin of the metadata keys under which the recorder keeps the lines of ``/proc/PID/maps`` that it needs."""

_LINE = re.compile(
    r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) \S+ (?P<offset>[0-9a-f]+) \S+ \d+ +(?P<path>/.*?)"
    r"(?P<deleted> \(deleted\))?"
)


class Mapping(msgspec.Struct, frozen=True):
    """Part of a file in the memory of a process."""

    start: int
    end: int
    offset: int
    """Offset in the file at which the mapping begins."""
    path: str
    is_deleted: bool
    """Whether the file has been removed or replaced since."""

    def file_offset(self, address: int) -> int:
        """Return the offset in the file of an address in this mapping."""
        return address - self.start + self.offset


def parse_maps(text: str) -> list[Mapping]:
    """Return the mapped files in a text of ``/proc/PID/maps``; other lines are ignored."""
    return [
        Mapping(
            start=int(found["start"], 16),
            end=int(found["end"], 16),
            offset=int(found["offset"], 16),
            path=found["path"].replace("\\012", "\n"),
            is_deleted=found["deleted"] is not None,
        )
        for line in text.split("\n")
        if (found := _LINE.fullmatch(line))
    ]


def mapping_at(mappings: list[Mapping], address: int) -> Mapping | None:
    """Return the mapping that contains an address."""
    return next((mapping for mapping in mappings if mapping.start <= address < mapping.end), None)
