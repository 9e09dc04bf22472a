"""Rows by key: the same as a dictionary gives, however many there are and whatever they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.pserver.state.totals import RowIndex
from tests.reference.telemetry import SlowIndex

MOST_NUMBER = (1 << 26) - 2
"""Greater ones have no place in a key."""
number = st.one_of(st.integers(0, 5), st.integers(0, MOST_NUMBER))
keys = st.tuples(st.integers(0, 3), number, st.one_of(st.just(-1), number))


@pytest.mark.compiled
@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(keys, max_size=40), max_size=8), st.integers(1, 60))
def test_rows_are_those_of_a_dictionary(batches: list[list[tuple[int, int, int]]], most: int) -> None:
    index, slow = RowIndex(most), SlowIndex(most)
    for batch in batches:
        columns = np.array(batch, np.int64).reshape(-1, 3).T
        assert index.rows(*columns).tolist() == [slow.row(key) for key in batch]
        assert len(index) == len(slow.numbers)


def test_many_rows_are_found_again() -> None:
    index = RowIndex()
    ranks, functions = np.divmod(np.arange(200_000), 20)
    assert (index.rows(1, ranks, functions) == np.arange(200_000)).all()
    assert (index.rows(1, ranks[::-1], functions[::-1]) == np.arange(200_000)[::-1]).all()
