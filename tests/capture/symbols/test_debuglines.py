"""Lines of instructions, as DWARF's programs of lines say them."""

from __future__ import annotations

import struct

from chimbuko.capture.symbols.debuglines import LineSettings, run_program

SETTINGS = LineSettings(
    opcode_base=13,
    line_base=-5,
    line_range=14,
    min_instruction_bytes=1,
    argument_counts=[0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1],
    is_little_endian=True,
)
COPY, ADVANCE_PC, ADVANCE_LINE = b"\x01", b"\x02", b"\x03"
END_SEQUENCE = b"\x00\x01\x01"


def at_address(address: int) -> bytes:
    return b"\x00\x09\x02" + struct.pack("<Q", address)


def test_a_function_ends_where_it_ends_though_a_row_stands_there() -> None:
    """Where variables are tracked, GCC leaves a row behind the last instruction; a function of
    another unit may begin there.
    """
    code = at_address(0x1000) + COPY + ADVANCE_PC + b"\x10" + ADVANCE_LINE + b"\x07" + COPY + END_SEQUENCE
    rows = run_program(code, SETTINGS)
    assert [rows.at(address) for address in (0xFFF, 0x1000, 0x100F, 0x1010, 0x2000)] == [
        None,
        (1, 1),
        (1, 1),
        None,
        None,
    ]


def test_what_the_linker_has_thrown_away_has_no_rows() -> None:
    code = at_address(0) + COPY + ADVANCE_PC + b"\x10" + END_SEQUENCE
    assert len(run_program(code, SETTINGS).addresses) == 0
    assert len(run_program(at_address(0x1000) + END_SEQUENCE, SETTINGS).addresses) == 0


def test_instructions_of_no_line_count_to_the_line_before() -> None:
    """Clang's body of a parallel region begins with its line, and with line 0 at the same address."""
    to_line_0 = ADVANCE_LINE + b"\x7f" + COPY
    to_line_5 = ADVANCE_PC + b"\x10" + ADVANCE_LINE + b"\x05" + COPY
    code = at_address(0x1000) + COPY + to_line_0 + to_line_5 + ADVANCE_PC + b"\x10" + END_SEQUENCE
    rows = run_program(code, SETTINGS)
    assert [rows.at(address) for address in (0x1000, 0x100F, 0x1010)] == [(1, 1), (1, 1), (1, 5)]
    rows = run_program(at_address(0x1000) + to_line_0 + ADVANCE_PC + b"\x10" + END_SEQUENCE, SETTINGS)
    assert rows.at(0x1000) == (1, 0)
