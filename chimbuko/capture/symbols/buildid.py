"""Build id of a binary, by which its linker makes it distinguishable."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from chimbuko.core.files import open_regular
from chimbuko.runtime.runs.programname import program_of

_NOTE = 4
"""Type of a segment that has notes."""
_BUILD_ID = 3
"""Type of the note that has the build id."""
_MOST_OF_SCRIPT = 1 << 20
_MOST_NOTES = 1 << 16
_HEADERS = {1: (0x1C, 0x2A, "I", 4, 16), 2: (0x20, 0x36, "Q", 8, 32)}
"""Layout of the headers by the width of addresses: where the offset and the size of the table of segments
stand, the format of an offset, and where in a segment's row its offset and its size in the file stand."""


def build_id(path: Path) -> str:
    """Return the build id in hexadecimal; empty if the file has none, or is not an ELF file.

    Only a few hundred bytes are read.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    with open_regular(path) as file:
        try:
            return _build_id(file)
        except (struct.error, KeyError, IndexError):
            return ""


def _build_id(file: BinaryIO) -> str:
    head = file.read(64)
    if head[:4] != b"\x7fELF":
        return ""
    order = {1: "<", 2: ">"}[head[5]]
    table_at, sizes_at, width, offset_at, size_at = _HEADERS[head[4]]
    (table,) = struct.unpack_from(order + width, head, table_at)
    row_bytes, rows = struct.unpack_from(order + "HH", head, sizes_at)
    segments = _part(file, table, row_bytes * min(rows, 256))
    for at in range(0, len(segments) - row_bytes + 1, row_bytes or len(segments) + 1):
        if struct.unpack_from(order + "I", segments, at) != (_NOTE,):
            continue
        (offset,) = struct.unpack_from(order + width, segments, at + offset_at)
        (size,) = struct.unpack_from(order + width, segments, at + size_at)
        if found := _in_notes(_part(file, offset, min(size, _MOST_NOTES)), order):
            return found
    return ""


def _part(file: BinaryIO, offset: int, size: int) -> bytes:
    """Return bytes of the file; none beyond its end."""
    if offset >= os.fstat(file.fileno()).st_size:
        return b""
    file.seek(offset)
    return file.read(size)


def _in_notes(notes: bytes, order: str) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_bytes, text_bytes, kind = struct.unpack_from(order + "III", notes, at)
        text_at = at + 12 + -(-name_bytes // 4) * 4
        if kind == _BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[text_at : text_at + min(text_bytes, 64)].hex()
        at = text_at + -(-text_bytes // 4) * 4
    return ""


def build_of(command: Sequence[str]) -> str:
    """Return what tells one build of a command's program from another: the build id of a binary, or the
    beginning of a script's checksum; empty if it is not found.
    """
    name = program_of(command) if command else ""
    word = next((word for word in command if Path(word).name.removesuffix(".py") == name), None)
    found = None if word is None else shutil.which(word) or word
    with suppress(OSError):
        if found is not None and Path(found).is_file():
            known = build_id(Path(found))
            return known or sha256(Path(found).read_bytes()[:_MOST_OF_SCRIPT]).hexdigest()[:16]
    return ""


DEBUG_FOLDER = Path("/usr/lib/debug")
