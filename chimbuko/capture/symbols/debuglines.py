"""Files and lines of functions, from the debug information of the compilation units that contain them.

The library symbolic 13.9 was tried in place of this module and ``binary``, on C++ of 361 MB with 16,077
functions. It takes 4.0 CPU-seconds and 493 MB of memory (184 MB anonymous) for 1 address as for 10,000; this
takes 0.3 s and 54 MB for 1, 9.5 s and 128 MB (83 MB anonymous) for 10,000. Lines agree, but symbolic names
57 of these functions after their part "[clone .cold]", reads no lines of split debug information, and lists
no functions, from which the address is deduced at which a binary was loaded.
"""

from __future__ import annotations

import io
import mmap
import posixpath
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
from elftools.dwarf.ranges import BaseAddressEntry, RangeEntry
from elftools.elf.sections import Section

from chimbuko.capture.symbols.binary import Binary
from chimbuko.core.arrays import UInt64Array

# Interpreter of DWARF's line programs, as a library for all of DWARF takes 20 times as long.


END = -1
"""Number in place of a file's, for the address at which a sequence of lines ends."""

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


@dataclass(frozen=True)
class LineSettings:
    """Settings of a line program, from its header."""

    opcode_base: int
    line_base: int
    line_range: int
    min_instruction_bytes: int
    argument_counts: list[int]
    """Number of arguments of opcode 1, 2 and so on."""
    is_little_endian: bool


@dataclass(frozen=True)
class LineRows:
    """Addresses at which lines of source files begin, sorted."""

    addresses: UInt64Array
    files: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]

    def at(self, address: int) -> tuple[int, int] | None:
        """Return file and line of the instruction at an address; None if they are not known."""
        found = int(np.searchsorted(self.addresses, np.uint64(address), side="right")) - 1
        if found < 0 or self.files[found] == END:
            return None
        return int(self.files[found]), int(self.lines[found])


def run_program(code: bytes, settings: LineSettings) -> LineRows:
    """Return all rows of a line program.

    Raises
    ------
    IndexError, struct.error
        The program is damaged.
    """
    rows: list[tuple[int, int, int]] = []
    sequence: list[tuple[int, int, int]] = []
    base, line_base = settings.opcode_base, settings.line_base
    line_range, unit = settings.line_range or 1, settings.min_instruction_bytes
    const_pc = (255 - base) // line_range * unit
    byte_order = "<" if settings.is_little_endian else ">"
    at, end = 0, len(code)
    address, file, line = 0, 1, 1

    def number(is_signed: bool = False) -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = code[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift = min(shift + 7, 63)
            if byte < 0x80:
                is_negative = is_signed and byte & 0x40
                return value - (1 << shift) if is_negative else value & 0xFFFFFFFFFFFFFFFF

    while at < end:
        opcode = code[at]
        at += 1
        if opcode >= base:
            opcode -= base
            address += opcode // line_range * unit
            line += line_base + opcode % line_range
            sequence.append((address, file, line))
        elif opcode == 0:
            size = number()
            after = at + size
            kind = code[at] if size else 0
            if kind == _END_SEQUENCE:
                # Code that the linker has removed is given the address 0.
                if sequence and sequence[0][0]:
                    # A compiler that marks where variables live may leave rows behind the last instruction.
                    rows += _with_lines(row for row in sequence if row[0] < address)
                    rows.append((address, END, 0))
                sequence = []
                address, file, line = 0, 1, 1
            elif kind == _SET_ADDRESS:
                address = struct.unpack_from(byte_order + {4: "I", 8: "Q"}.get(size - 1, "Q"), code, at + 1)[
                    0
                ]
            at = after
        elif opcode == _COPY:
            sequence.append((address, file, line))
        elif opcode == _ADVANCE_PC:
            address += number() * unit
        elif opcode == _ADVANCE_LINE:
            line += number(is_signed=True)
        elif opcode == _SET_FILE:
            file = number()
        elif opcode == _CONST_ADD_PC:
            address += const_pc
        elif opcode == _FIXED_ADVANCE_PC:
            address += struct.unpack_from(byte_order + "H", code, at)[0]
            at += 2
        else:
            for _ in range(settings.argument_counts[opcode - 1]):
                number()
    return _sorted(rows)


def _with_lines(rows: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield the rows of a sequence without those of line 0, which stand for instructions of no line: these
    count to the line before, if there is one.
    """
    has_line = False
    for row in rows:
        if row[2] > 0 or not has_line:
            yield row
        has_line |= row[2] > 0


def _sorted(rows: list[tuple[int, int, int]]) -> LineRows:
    mask = (1 << 64) - 1
    addresses = np.array([row[0] & mask for row in rows], np.uint64)
    files = np.array([min(row[1], 1 << 31) for row in rows], np.int64)
    lines = np.array([min(max(row[2], 0), 1 << 31) for row in rows], np.int64)
    # Of several rows for one address the last one counts; an end of a sequence stands before a beginning.
    order = np.lexsort((np.arange(len(rows)), files != END, addresses))
    return LineRows(addresses[order], files[order], lines[order])


MOST_UNPACKED_BYTES = 1 << 28
"""Largest compressed section that is read, in bytes once it is unpacked."""

_SECTIONS = {
    "debug_info_sec": ".debug_info",
    "debug_abbrev_sec": ".debug_abbrev",
    "debug_str_sec": ".debug_str",
    "debug_line_sec": ".debug_line",
    "debug_line_str_sec": ".debug_line_str",
    "debug_ranges_sec": ".debug_ranges",
    "debug_rnglists_sec": ".debug_rnglists",
    "debug_addr_sec": ".debug_addr",
    "debug_str_offsets_sec": ".debug_str_offsets",
}
_OTHER_SECTIONS = (
    *("debug_aranges_sec", "debug_frame_sec", "eh_frame_sec", "debug_loc_sec", "debug_pubtypes_sec"),
    *("debug_pubnames_sec", "debug_loclists_sec", "debug_sup_sec", "gnu_debugaltlink_sec", "debug_types_sec"),
)


class DebugLines:
    """Source lines of one binary."""

    def __init__(self, binary: Binary) -> None:
        self._binary = binary
        found = {name: self._section(section) for name, section in _SECTIONS.items()}
        self._dwarf = DWARFInfo(
            config=DwarfConfig(
                little_endian=binary.elf.little_endian,
                machine_arch=binary.elf.get_machine_arch(),
                default_address_size=binary.elf.elfclass // 8,
            ),
            **found,
            **dict.fromkeys(_OTHER_SECTIONS),
        )
        self.is_there = bool(found["debug_info_sec"] and found["debug_line_sec"])

    def places(self, addresses: list[int], functions: UInt64Array) -> dict[int, tuple[str, int]]:
        """Return file and line of each address, as far as they are known.

        The answer includes all ``functions`` (sorted) in the same units: whoever asks for one function will
        ask for the others.
        """
        made: dict[int, tuple[str, int]] = {}
        for unit in self._units_of(addresses):
            # A damaged unit counts as one without lines.
            with suppress(Exception):
                made.update(self._unit_places(unit, addresses, functions))
        return made

    def _unit_places(
        self, unit: CompileUnit, addresses: list[int], functions: UInt64Array
    ) -> Iterator[tuple[int, tuple[str, int]]]:
        program = self._dwarf.line_program_for_CU(unit)
        if program is None:
            return
        head = program.header
        stream = program.stream
        stream.seek(program.program_start_offset)
        rows = run_program(
            stream.read(program.program_end_offset - program.program_start_offset),
            LineSettings(
                opcode_base=head["opcode_base"],
                line_base=head["line_base"],
                line_range=head["line_range"],
                min_instruction_bytes=head["minimum_instruction_length"],
                argument_counts=list(head["standard_opcode_lengths"]),
                is_little_endian=self._binary.elf.little_endian,
            ),
        )
        files: dict[int, str] = {}
        folder = _text(unit.get_top_DIE().attributes.get("DW_AT_comp_dir"))
        for address in [*addresses, *_within(rows, functions)]:
            if (place := rows.at(address)) is not None and place[1]:
                file, line = place
                if file not in files:
                    files[file] = _file_name(head, file, folder)
                if files[file]:
                    yield address, (files[file], line)

    def _units_of(self, addresses: list[int]) -> list[CompileUnit]:
        """Return the units that contain the addresses, each once."""
        offsets, missing = self._by_table(addresses)
        units = [self._dwarf.get_CU_at(offset) for offset in sorted(offsets)]
        if missing:
            units += [unit for unit in self._dwarf.iter_CUs() if self._holds(unit, missing)]
        return units

    def _by_table(self, addresses: list[int]) -> tuple[set[int], list[int]]:
        """Return the units that ``.debug_aranges`` has for the addresses, and the addresses without one."""
        section = self._section(".debug_aranges")
        table = UnitTable(b"" if section is None else section.stream.read(), self._dwarf.config.little_endian)
        found = {address: table.unit_at(address) for address in addresses}
        offsets = {offset for offset in found.values() if offset is not None}
        return offsets, [address for address, offset in found.items() if offset is None]

    def _holds(self, unit: CompileUnit, addresses: list[int]) -> bool:
        with suppress(Exception):
            return any(begin <= a < end for begin, end in self._intervals(unit) for a in addresses)
        return False

    def _intervals(self, unit: CompileUnit) -> Iterator[tuple[int, int]]:
        known = unit.get_top_DIE().attributes
        low = known["DW_AT_low_pc"].value if "DW_AT_low_pc" in known else 0
        if "DW_AT_high_pc" in known:
            high = known["DW_AT_high_pc"]
            yield low, high.value if high.form == "DW_FORM_addr" else low + high.value
        lists = self._dwarf.range_lists()
        if "DW_AT_ranges" not in known or lists is None:
            return
        base = low
        at = known["DW_AT_ranges"].value
        for entry in lists.get_range_list_at_offset(at, unit):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            elif isinstance(entry, RangeEntry):
                shift = 0 if entry.is_absolute else base
                yield entry.begin_offset + shift, entry.end_offset + shift

    def _section(self, name: str) -> DebugSectionDescriptor | None:
        section = self._binary.elf.get_section_by_name(name)
        if section is None or section["sh_type"] == "SHT_NOBITS":
            return None
        return DebugSectionDescriptor(
            stream=self._stream(section),
            name=name,
            global_offset=section["sh_offset"],
            size=section.data_size,
            address=section["sh_addr"],
        )

    def _stream(self, section: Section) -> Any:
        if not section.compressed:
            return Window(self._binary.data, section["sh_offset"], section["sh_size"])
        if section.data_size > MOST_UNPACKED_BYTES:
            return io.BytesIO()
        return io.BytesIO(section.data())


class UnitTable:
    """Table of the units by address, from ``.debug_aranges``."""

    def __init__(self, data: bytes, is_little_endian: bool) -> None:
        order = "<" if is_little_endian else ">"
        begins, sizes, units = [], [], []
        at = 0
        while at + 12 <= len(data):
            # Compilers write 64-bit DWARF, which is not read here, only where they are asked to.
            length, version, unit, width, segment = struct.unpack_from(f"{order}IHIBB", data, at)
            end = at + 4 + length
            if version == 2 and width in (4, 8) and not segment and end <= len(data):
                first = at + -(-12 // (2 * width)) * 2 * width
                pairs = np.frombuffer(data[first:end], f"{order}u{width}")
                begins.append(pairs[0::2].astype(np.uint64))
                sizes.append(pairs[1::2].astype(np.uint64))
                units.append(np.full(len(pairs) // 2, unit, np.int64))
            at = end
        nothing = np.empty(0, np.uint64)
        begin = np.concatenate([nothing, *begins])
        order_of = np.argsort(begin, kind="stable")
        self._begins = begin[order_of]
        self._sizes = np.concatenate([nothing, *sizes])[order_of]
        self._units = np.concatenate([np.empty(0, np.int64), *units])[order_of]

    def unit_at(self, address: int) -> int | None:
        """Return the offset in ``.debug_info`` of the unit that contains an address; None for none."""
        found = int(np.searchsorted(self._begins, np.uint64(address), side="right")) - 1
        if found < 0 or address - int(self._begins[found]) >= int(self._sizes[found]):
            return None
        return int(self._units[found])


class Window:
    """Part of a mapped file that can be read like a file."""

    def __init__(self, data: mmap.mmap, offset: int, size: int) -> None:
        self._data = data
        self._begin = offset
        self._end = min(offset + size, len(data))
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """Read ``size`` bytes, or all that are left."""
        begin = self._begin + self._at
        end = self._end if size < 0 else min(begin + size, self._end)
        part = self._data[begin:end] if begin < end else b""
        self._at += len(part)
        return part

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the position, as :meth:`io.IOBase.seek` does."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end - self._begin}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at


def _within(rows: LineRows, functions: UInt64Array) -> list[int]:
    """Return the functions between the first and the last address of a unit's lines."""
    if not len(rows.addresses):
        return []
    first, last = np.searchsorted(functions, rows.addresses[[0, -1]])
    found: list[int] = functions[first:last].tolist()
    return found


def _file_name(head: Any, file: int, comp_dir: str) -> str:
    """Return the path of a file that a line program names by its number."""
    is_counted_from_0 = head["version"] >= 5
    entry = head["file_entry"][file if is_counted_from_0 else file - 1]
    number = entry["dir_index"]
    folders = head["include_directory"]
    if is_counted_from_0:
        folder = _decoded(folders[number]) if number else ""
        comp_dir = _decoded(folders[0]) or comp_dir
    else:
        folder = _decoded(folders[number - 1]) if number else ""
    return posixpath.join(comp_dir, folder, _decoded(entry["name"]))


def _text(attribute: Any) -> str:
    return "" if attribute is None else _decoded(attribute.value)


def _decoded(text: Any) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else ""
