"""Requests for the functions of a binary, their answers, and a cache of these for the other ranks of the
node and for later runs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from chimbuko.capture.symbols.buildid import DEBUG_FOLDER, build_id
from chimbuko.capture.symbols.maps import deduce_base
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.files import write_atomically

# Request for functions of a binary, and the answer.


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


MOST_BYTES = 1 << 28
FORMAT = 2
"""Version of the format of the cached files; those of others are not read."""


def binary_key(path: Path) -> str:
    """Return a key by which a binary is cached.

    The key has the build id and the size, so that copies have the same, and the sizes of files with debug
    symbols; a stripped binary has the build id of the whole one. A binary without a build id is identified by
    its path, inode and time of change.

    Raises
    ------
    OSError
        The binary cannot be read.
    """
    found = path.stat()
    identity = build_id(path)
    if not identity:
        return f"- {path.resolve()} {found.st_dev} {found.st_ino} {found.st_mtime_ns}"
    separate = (
        DEBUG_FOLDER / ".build-id" / identity[:2] / f"{identity[2:]}.debug",
        path.with_name(f"{path.name}.debug"),
        path.parent / ".debug" / f"{path.name}.debug",
    )
    sizes = [file.stat().st_size for file in separate if file.is_file()]
    return " ".join(map(str, [identity, found.st_size, *sizes]))


class SymbolCache:
    """Folder with a file for each binary. Where it cannot be used, look-ups are only slower.

    Parameters
    ----------
    environment
        Environment in which ``XDG_CACHE_HOME`` and ``HOME`` are looked up.
    most_bytes
        Most bytes that are kept; the files not used for the longest time are removed first.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        cache = environment.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(cache):
            cache = str(Path(environment.get("HOME") or "/nonexistent", ".cache"))
        self.folder = Path(cache, "chimbuko", "symbols")

    def stamp(self, key: str) -> tuple[int, int] | None:
        """Return a value that changes with the cached functions of a binary; None while there are none."""
        try:
            found = self._path(key).stat()
        except OSError:
            return None
        return found.st_ino, found.st_size

    def load(self, key: str) -> BinarySymbols | None:
        """Return the cached functions of a binary; None if there are none."""
        path = self._path(key)
        try:
            data = path.read_bytes()
            if data[:32] != hashlib.sha256(data[32:]).digest():
                return None
            found = msgspec.msgpack.decode(data[32:], type=BinarySymbols)
        except (OSError, msgspec.MsgspecError, ValueError):
            return None
        with suppress(OSError):
            os.utime(path)
        return found

    def save(self, key: str, symbols: BinarySymbols) -> None:
        """Store the functions of a binary, as a whole or not at all."""
        data = msgspec.msgpack.encode(symbols)
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path(key), hashlib.sha256(data).digest() + data, mode=0o600)
            self._make_room()

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(f'{FORMAT} {key}'.encode()).hexdigest()[:32]}.symbols"

    def _make_room(self) -> None:
        total = 0
        kept = [(entry.stat(), entry.path) for entry in os.scandir(self.folder)]
        for found, path in sorted(kept, key=lambda item: item[0].st_mtime, reverse=True):
            total += found.st_size
            if total > self._most_bytes:
                os.unlink(path)
