"""Rows by rank and something else: all are counted, also where there is no room for a row of their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.arrays import Rows
from chimbuko.pserver.state.totals import RowIndex, Totals
from chimbuko.runtime.protocol.telemetry import OTHERS, TRAFFIC
from tests.plainpython import examples
from tests.reference.telemetry import SlowIndex, SlowTraffic

messages = st.dictionaries(st.integers(OTHERS, 6), st.integers(1, 9), max_size=4)
reports = st.tuples(st.integers(0, 1), st.integers(0, 3), messages)


def new_totals(most: int = 1000) -> Totals:
    return Totals(TRAFFIC, "destination", ("messages", "size_bytes"), most)


def sent(program: int, rank: int, by_destination: dict[int, int]) -> Rows:
    """What a rank sent: so many messages of 100 bytes each to so many ranks."""
    rows = [(program, rank, to, count, 100 * count) for to, count in by_destination.items()]
    return np.array(rows, TRAFFIC)


def by_key(rows: Rows) -> dict[tuple[int, int, int], list[int]]:
    found = {tuple(row)[:3]: list(tuple(row)[3:]) for row in rows.tolist()}
    assert len(found) == len(rows)
    return found


@examples(200)
@given(st.lists(st.tuples(reports, st.booleans()), max_size=40), st.integers(1, 12))
def test_the_matrix_is_that_of_a_dictionary(reported: list, most: int) -> None:
    """Between some reports the totals are looked at; what was saved goes on."""
    totals, slow = new_totals(most), SlowTraffic(most)
    for report_, is_looked_at in reported:
        rows = sent(*report_)
        totals.take(rows.tobytes())
        slow.take(rows)
        if is_looked_at:
            assert by_key(totals.everything()) == slow.everything()
            restored = new_totals(most)
            restored.restore(totals.everything())
            assert not len(restored.grown_by(1.1))
            totals = restored
    assert by_key(totals.everything()) == slow.everything()


def test_rows_are_reported_when_they_have_grown_by_a_tenth() -> None:
    totals = new_totals()
    reported = 0
    for _ in range(1000):
        totals.take(sent(0, 1, {2: 1}).tobytes())
        changes = totals.grown_by(1.1)
        reported += len(changes)
    assert 40 < reported < 80
    assert totals.everything()["messages"].tolist() == [1000]
    assert not len(totals.grown_by(1.1))


def test_without_room_the_rank_alone_is_known() -> None:
    totals = new_totals(2)
    totals.take(sent(0, 5, {1: 1, 2: 2, 3: 3, 4: 4, OTHERS: 1}).tobytes())
    assert by_key(totals.grown_by(1.1)) == {
        (0, 5, 1): [1, 100],
        (0, 5, 2): [2, 200],
        (0, 5, OTHERS): [8, 800],
    }


MOST_NUMBER = (1 << 26) - 2
"""Greater ones have no place in a key."""
number = st.one_of(st.integers(0, 5), st.integers(0, MOST_NUMBER))
keys = st.tuples(st.integers(0, 3), number, st.one_of(st.just(-1), number))


@pytest.mark.compiled
@examples(200)
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
