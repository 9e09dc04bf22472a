"""Where a binary lay, by the addresses of its functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.capture.symbols.maps import PAGE, deduce_base

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
