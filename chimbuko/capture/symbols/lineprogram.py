"""Interpreter of DWARF's line programs, as a library for all of DWARF takes 20 times as long."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import UInt64Array

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
                    rows += [row for row in sequence if row[0] < address]
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


def _sorted(rows: list[tuple[int, int, int]]) -> LineRows:
    mask = (1 << 64) - 1
    addresses = np.array([row[0] & mask for row in rows], np.uint64)
    files = np.array([min(row[1], 1 << 31) for row in rows], np.int64)
    lines = np.array([min(max(row[2], 0), 1 << 31) for row in rows], np.int64)
    # Of several rows for one address the last one counts; an end of a sequence stands before a beginning.
    order = np.lexsort((np.arange(len(rows)), files != END, addresses))
    return LineRows(addresses[order], files[order], lines[order])
