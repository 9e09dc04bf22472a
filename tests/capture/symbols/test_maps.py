"""The memory map of a process, as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.capture.symbols.maps import PAGE, Mapping, deduce_base, mapping_at, parse_maps

TEXT = """\
5581f0a6e000-5581f0a6f000 r--p 00000000 fe:00 1311                       /opt/a b/app
5581f0a6f000-5581f0a70000 r-xp 00001000 fe:00 1311                       /opt/a b/app
5581f0a73000-5581f0a94000 rw-p 00000000 00:00 0                          [heap]
7f1c00000000-7f1c00021000 rw-p 00000000 00:00 0
7f1c0a000000-7f1c0a001000 r-xp 00002000 fe:00 99                         /tmp/libx.so (deleted)
damage
"""


def test_files_are_found_with_their_offsets() -> None:
    found = parse_maps(TEXT)
    assert found[1:] == [
        Mapping(0x5581F0A6F000, 0x5581F0A70000, 0x1000, "/opt/a b/app", False),
        Mapping(0x7F1C0A000000, 0x7F1C0A001000, 0x2000, "/tmp/libx.so", True),
    ]
    mapping = mapping_at(found, 0x5581F0A6F123)
    assert mapping is found[1] and mapping.file_offset(0x5581F0A6F123) == 0x1123
    assert mapping_at(found, 0x5581F0A70000) is None


def test_own_map_can_be_read() -> None:
    found = parse_maps(Path("/proc/self/maps").read_text())
    assert any("libc" in mapping.path for mapping in found)


BASE = 0x5581F0A6E000


@given(
    st.sets(st.integers(0x1000, 0x40000), min_size=1, max_size=200),
    st.integers(0, 1 << 30),
)
def test_a_base_that_is_found_is_the_true_one(entries: set[int], pages: int) -> None:
    """Whatever functions were called: where another base fits all of them too, there is none."""
    chosen = sorted(entries)[:: 1 + len(entries) // 7]
    found = deduce_base(
        [pages * PAGE + entry for entry in chosen], np.array(sorted(entries), np.uint64), False
    )
    assert found in (None, pages * PAGE)


def test_functions_at_the_same_place_of_a_page_are_told_apart_by_others() -> None:
    entries = np.array([0x1100, 0x2100, 0x2340], np.uint64)
    assert deduce_base([BASE + 0x1100], entries, False) is None
    assert deduce_base([BASE + 0x2340], entries, False) == BASE
    assert deduce_base([BASE + 0x1100, BASE + 0x2340], entries, False) == BASE


@pytest.mark.parametrize("addresses", [[BASE + 0x1100, BASE + 0x1104], [BASE + 0x1101], [5]])
def test_addresses_of_another_binary_have_no_base(addresses: list[int]) -> None:
    assert deduce_base(addresses, np.array([0x1100, 0x2340], np.uint64), False) is None
    assert deduce_base(addresses, np.empty(0, np.uint64), False) is None


def test_binary_that_cannot_be_moved_lies_where_it_says() -> None:
    entries = np.array([0x401100, 0x402340], np.uint64)
    assert deduce_base([0x401100], entries, True) == 0
    assert deduce_base([0x401101], entries, True) is None
