"""What is asked of a binary, and what is known of one."""

from __future__ import annotations

import msgspec
import numpy as np

from chimbuko.capture.symbols.loadbase import deduce_base
from chimbuko.core.arrays import UInt64Array


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where an address of a binary is in its source."""

    name: str
    """The function's; empty if unknown."""
    file: str
    """Empty if unknown."""
    line: int
    """0 if unknown."""


class BinarySymbols(msgspec.Struct):
    """What is known of one binary."""

    is_fixed: bool = False
    """It cannot be moved."""
    segments: list[tuple[int, int, int]] = []
    """Offset in the file, address and size of each part that is loaded."""
    entry_bytes: bytes = b""
    """Where functions begin: sorted u8."""
    places: dict[int, Place] = {}
    """By address in the binary: all that were asked for, and others."""
    problem: str = ""
    """Why functions have no names, and what to do."""
    is_without_lines: bool = False
    """To read its debug information takes too long."""

    def entries(self) -> UInt64Array:
        """Where functions begin, sorted."""
        return np.frombuffer(self.entry_bytes, np.uint64)

    def address_at(self, offset: int) -> int | None:
        """The binary's own address of a byte of its file."""
        for begin, address, size in self.segments:
            if begin <= offset < begin + size:
                return offset - begin + address
        return None


class Request(msgspec.Struct):
    """What to look up."""

    path: str
    key: str
    """In the cache."""
    offsets: list[int]
    """In the file."""
    addresses: list[int]
    """In the memory of a process: where functions begin. It is not known where the binary lies there."""
    places: list[int]
    """In the binary's own count."""


def wanted_places(request: Request, known: BinarySymbols) -> list[int]:
    """The binary's own addresses of all that is asked for, as far as these can be determined."""
    found = [place for offset in request.offsets if (place := known.address_at(offset)) is not None]
    base = deduce_base(request.addresses, known.entries(), known.is_fixed) if request.addresses else None
    if base is not None:
        found += [address - base for address in request.addresses]
    return sorted({*found, *request.places})
