"""Executable or shared library: where its segments are loaded, and the functions in its symbol table."""

from __future__ import annotations

import mmap
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from chimbuko.capture.symbols.buildid import DEBUG_FOLDER
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.files import open_regular

_USUAL_NAME = 256
_MOST_NAME = 1 << 14
"""Longest name, in bytes; names of templates have thousands, and longer ones are damage."""
_FUNCTION_KINDS = (2, 10)
_FILE_KIND = 4
_LOCAL, _GLOBAL = 0, 1


@dataclass(frozen=True)
class Symbol:
    """Function in the symbol table."""

    name: str
    """Name that the linker knows."""
    file: str
    """Source file; known only for functions with internal linkage."""


class Binary:
    """ELF file, mapped and not read, since it may be larger than the memory.

    Raises
    ------
    OSError
        The file cannot be read.
    Exception
        The file is not an ELF file, or is damaged; damage may raise errors of any kind.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_regular(path) as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.elf = ELFFile(self.data)  # type: ignore[arg-type]
        self.is_fixed = self.elf["e_type"] == "ET_EXEC"
        self.segments: list[tuple[int, int, int]] = [
            (part["p_offset"], part["p_vaddr"], part["p_filesz"])
            for part in self.elf.iter_segments(type="PT_LOAD")
        ]
        """Offset in the file, address and size of each loaded segment."""

    def section_data(self, section: Section) -> memoryview:
        """Return the bytes of a section, as far as the file has them, without a copy."""
        begin, size = section["sh_offset"], section["sh_size"]
        return memoryview(self.data)[begin : begin + size]

    def symbols(self) -> Symbols:
        """Return the functions of the binary; none if it was stripped."""
        for name in (".symtab", ".dynsym"):
            table = self.elf.get_section_by_name(name)
            if table is not None and table["sh_type"] in ("SHT_SYMTAB", "SHT_DYNSYM"):
                names = self.elf.get_section(table["sh_link"])
                rows = np.frombuffer(self._whole_rows(table), self._row_type())
                return Symbols(rows, self.section_data(names), is_whole=name == ".symtab")
        return Symbols(np.empty(0, self._row_type()), memoryview(b""), is_whole=False)

    def debug_file(self, build_id: str) -> Path | None:
        """Return the file of the stripped symbols, from the system's folder or beside the binary."""
        if len(build_id) > 2:
            known = DEBUG_FOLDER / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
            if known.is_file():
                return known
        link = self.elf.get_section_by_name(".gnu_debuglink")
        if link is None:
            return None
        data = bytes(self.section_data(link))
        name, checksum = data.partition(b"\0")[0].decode(), data[-4:]
        if not name or "/" in name:
            return None
        folder = self.path.resolve().parent
        for candidate in (folder / name, folder / ".debug" / name, DEBUG_FOLDER / str(folder)[1:] / name):
            if candidate.is_file() and self._checksum_bytes(candidate) == checksum:
                return candidate
        return None

    def _checksum_bytes(self, path: Path) -> bytes:
        checksum = 0
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                checksum = zlib.crc32(part, checksum)
        return checksum.to_bytes(4, "little" if self.elf.little_endian else "big")

    def _whole_rows(self, table: Section) -> memoryview:
        data = self.section_data(table)
        return data[: len(data) - len(data) % self._row_type().itemsize]

    def _row_type(self) -> np.dtype[np.void]:
        order = "<" if self.elf.little_endian else ">"
        if self.elf.elfclass == 64:
            fields = [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("start", "u8")]
            fields += [("size", "u8")]
        else:
            fields = [("name", "u4"), ("start", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1")]
            fields += [("section", "u2")]
        return np.dtype([(name, order + kind) for name, kind in fields])


class Symbols:
    """Functions of a symbol table, by their addresses.

    Parameters
    ----------
    rows
        Rows of the table.
    names
        Table of strings to which the rows point.
    is_whole
        Whether the table has all functions, and not only those that other binaries can call.
    """

    def __init__(self, rows: npt.NDArray[Any], names: memoryview, is_whole: bool) -> None:
        kinds, binding = rows["info"] & 0xF, rows["info"] >> 4
        is_function = np.isin(kinds, _FUNCTION_KINDS) & (rows["section"] != 0)
        at = np.flatnonzero(is_function)
        # Of several names for one address the global one counts, else the first.
        preference = np.where(binding[at] == _GLOBAL, 0, np.where(binding[at] == _LOCAL, 2, 1))
        at = at[np.lexsort((at, preference, rows["start"][at]))]
        _, first = np.unique(rows["start"][at], return_index=True)
        at = at[first]
        self.is_whole = is_whole
        self.entries: UInt64Array = rows["start"][at].astype(np.uint64)
        """Addresses at which functions begin, sorted."""
        self._sizes = rows["size"][at].astype(np.uint64)
        self._names = rows["name"][at]
        self._texts = names
        files = np.where(kinds == _FILE_KIND, np.arange(len(rows)), -1)
        # In the table the functions of a source file follow its row.
        owner = np.maximum.accumulate(files)[at] if len(rows) else np.empty(0, np.int64)
        self._files = np.where((binding[at] == _LOCAL) & (owner >= 0), rows["name"][owner], 0)

    def __len__(self) -> int:
        return len(self.entries)

    def at(self, address: int) -> Symbol | None:
        """Return the function that contains an address."""
        if not 0 <= address < 1 << 64:
            return None
        found = int(np.searchsorted(self.entries, np.uint64(address), side="right")) - 1
        if found < 0:
            return None
        start = int(self.entries[found])
        if address != start and address - start >= int(self._sizes[found]):
            return None
        name = self._text(int(self._names[found]))
        return Symbol(name.partition("@")[0], self._text(int(self._files[found]))) if name else None

    def _text(self, offset: int) -> str:
        text, end, _ = bytes(self._texts[offset : offset + _USUAL_NAME]).partition(b"\0")
        if not end:
            text = bytes(self._texts[offset : offset + _MOST_NAME]).partition(b"\0")[0]
        return text.decode(errors="replace")
