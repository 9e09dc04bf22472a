"""Request for functions of a binary, and the answer."""

from __future__ import annotations

import msgspec
import numpy as np

from chimbuko.capture.symbols.maps import deduce_base
from chimbuko.core.arrays import UInt64Array


class SourceLocation(msgspec.Struct, frozen=True, array_like=True):
    """Location of an address of a binary in its source."""

    name: str
    """Name of the function; empty if unknown."""
    file: str
    """Source file; empty if unknown."""
    line: int
    """Line; 0 if unknown."""


class BinarySymbols(msgspec.Struct):
    """Functions of one binary, as far as they are known."""

    is_fixed: bool = False
    """Whether the binary has a fixed address in memory."""
    segments: list[tuple[int, int, int]] = []
    """Offset in the file, address and size of each loaded segment."""
    entry_bytes: bytes = b""
    """Addresses at which functions begin, sorted, as 64-bit numbers."""
    places: dict[int, SourceLocation] = {}
    """Source locations by address in the binary: all that were asked for, and others."""
    problem: str = ""
    """Why functions have no names, and what to do about it; empty if they have."""
    is_without_lines: bool = False
    """Whether its debug information takes too long to read."""

    def entries(self) -> UInt64Array:
        """Return the addresses at which functions begin, sorted."""
        return np.frombuffer(self.entry_bytes, np.uint64)

    def address_at(self, offset: int) -> int | None:
        """Return the address in the binary of an offset in its file."""
        for begin, address, size in self.segments:
            if begin <= offset < begin + size:
                return offset - begin + address
        return None


class Request(msgspec.Struct):
    """Request for functions of one binary."""

    path: str
    key: str
    """Key of the binary in the cache."""
    offsets: list[int]
    """Offsets in the file to look up."""
    addresses: list[int]
    """Addresses at which functions begin in a process that has the binary at an unknown address."""
    places: list[int]
    """Addresses in the binary to look up."""


def wanted_places(request: Request, known: BinarySymbols) -> list[int]:
    """Return the addresses in the binary of all that is asked for, as far as they can be determined."""
    found = [place for offset in request.offsets if (place := known.address_at(offset)) is not None]
    base = deduce_base(request.addresses, known.entries(), known.is_fixed) if request.addresses else None
    if base is not None:
        found += [address - base for address in request.addresses]
    return sorted({*found, *request.places})
