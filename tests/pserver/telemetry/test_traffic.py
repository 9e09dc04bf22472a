"""Messages from rank to rank: all are counted, also where there is no room for their pair of ranks."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.arrays import Rows
from chimbuko.protocol.telemetry import OTHERS, TRAFFIC
from chimbuko.pserver.telemetry.traffic import Traffic
from tests.reference.telemetry import SlowTraffic

messages = st.dictionaries(st.integers(0, 6), st.integers(1, 9), max_size=4)
reports = st.tuples(st.integers(0, 1), st.integers(0, 3), messages)


def sent(program: int, rank: int, by_destination: dict[int, int]) -> Rows:
    """What a rank sent: so many messages of 100 bytes each to so many ranks."""
    rows = [(program, rank, to, count, 100 * count) for to, count in by_destination.items()]
    return np.array(rows, TRAFFIC)


def totals(rows: Rows) -> dict[tuple[int, int, int], list[int]]:
    found = {tuple(row)[:3]: list(tuple(row)[3:]) for row in rows.tolist()}
    assert len(found) == len(rows)
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(reports, st.booleans()), max_size=40), st.integers(1, 12))
def test_the_matrix_is_that_of_a_dictionary(reported: list, most_pairs: int) -> None:
    """Between some tellings the totals are looked at; what was saved goes on."""
    traffic, slow = Traffic(most_pairs), SlowTraffic(most_pairs)
    for report_, is_looked_at in reported:
        rows = sent(*report_)
        traffic.take(rows.tobytes())
        slow.take(rows)
        if is_looked_at:
            assert totals(traffic.everything()) == slow.everything()
            restored = Traffic(most_pairs)
            restored.restore(traffic.everything())
            assert not len(restored.changes())
            traffic = restored
    assert totals(traffic.everything()) == slow.everything()


def test_pairs_are_reported_when_they_have_grown_by_a_tenth() -> None:
    traffic = Traffic()
    reported = 0
    for _ in range(1000):
        traffic.take(sent(0, 1, {2: 1}).tobytes())
        changes = traffic.changes()
        reported += len(changes)
    assert 40 < reported < 80
    assert traffic.everything()["messages"].tolist() == [1000]
    assert not len(traffic.changes())


def test_without_room_the_sender_alone_is_known() -> None:
    traffic = Traffic(most_pairs=2)
    traffic.take(sent(0, 5, {1: 1, 2: 2, 3: 3, 4: 4}).tobytes())
    assert totals(traffic.changes()) == {(0, 5, 1): [1, 100], (0, 5, 2): [2, 200], (0, 5, OTHERS): [7, 700]}
