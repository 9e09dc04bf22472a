"""What was looked up in binaries, kept for the other ranks of the node and for later runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from chimbuko.capture.symbols.buildid import DEBUG_FOLDER, build_id
from chimbuko.capture.symbols.requests import BinarySymbols
from chimbuko.core.atomicfile import write_atomically

MOST_BYTES = 1 << 28
FORMAT = 1
"""Of what is kept; others are not read."""


def binary_key(path: Path) -> str:
    """Names a binary by its build id and size, so that copies are one; without an id by its place and time.
    A stripped one has the id of the whole one, and so have both with and without a file of debug symbols.

    Raises
    ------
    OSError
        It cannot be read.
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
    """A folder with a file for each binary. Where it cannot be used all is only slower.

    Parameters
    ----------
    environment
        Where ``XDG_CACHE_HOME`` and ``HOME`` are looked up.
    most_bytes
        Of all that is kept; what was not used for the longest time goes first.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        cache = environment.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(cache):
            cache = str(Path(environment.get("HOME") or "/nonexistent", ".cache"))
        self.folder = Path(cache, "chimbuko", "symbols")

    def stamp(self, key: str) -> tuple[int, int] | None:
        """Another one when something else is known of a binary; None while that is nothing."""
        try:
            found = self._path(key).stat()
        except OSError:
            return None
        return found.st_ino, found.st_size

    def load(self, key: str) -> BinarySymbols | None:
        """What is known of a binary; None if that is nothing."""
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
        """Keep it, as a whole or not at all."""
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
