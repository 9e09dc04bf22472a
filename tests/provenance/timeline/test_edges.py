"""Messages of ranks: their ends find each other, and many become few without one being lost."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.provenance.timeline import edges
from chimbuko.provenance.timeline.edges import LAUNCH, LINK, RECEIVE, SEND, UNKNOWN, Links


def made(rank: int, messages: list[tuple[int, int, int, int, int]]) -> Links:
    """Ends on ``rank`` of messages (sender, receiver, tag, sent, received)."""
    rows = np.zeros(0, LINK)
    for sender, receiver, tag, sent, received in messages:
        for own, kind, other, time in ((sender, SEND, receiver, sent), (receiver, RECEIVE, sender, received)):
            if own != rank:
                continue
            row = np.zeros(1, LINK)
            row["time_us"], row["other_us"], row["other_rank"], row["tag"] = time, UNKNOWN, other, tag
            row["kind"], row["count"], row["size_bytes"], row["depth"] = kind, 1, 8 + tag, rank
            row["other_thread"] = row["other_depth"] = UNKNOWN
            rows = np.concatenate((rows, row))
    return edges.numbered(rows)


@st.composite
def traffic(draw: st.DrawFn) -> list[tuple[int, int, int, int, int]]:
    """Messages between three ranks that do not overtake those of the same ranks and tag."""
    count = draw(st.integers(1, 60))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    last: dict[tuple[int, int, int], int] = defaultdict(int)
    messages = []
    for number in range(count):
        sender, receiver = (int(rank) for rank in chance.choice(3, 2, replace=False))
        tag, sent = int(chance.integers(0, 2)), 1000 + 10 * number
        received = max(sent + int(chance.integers(0, 200)), last[sender, receiver, tag] + 1)
        last[sender, receiver, tag] = received
        messages.append((sender, receiver, tag, sent, received))
    return messages


@settings(deadline=None)
@given(traffic())
def test_each_end_finds_the_other(messages: list[tuple[int, int, int, int, int]]) -> None:
    of_rank = [made(rank, messages) for rank in range(3)]
    found = edges.joined(edges.joined(of_rank[0], 0, 1, of_rank[1]), 0, 2, of_rank[2])
    expected = sorted(
        (sent, received, receiver, tag) if sender == 0 else (received, sent, sender, tag)
        for sender, receiver, tag, sent, received in messages
        if 0 in (sender, receiver)
    )
    ends = found[["time_us", "other_us", "other_rank", "tag"]].tolist()
    assert sorted(ends) == expected
    assert (found["other_depth"] == found["other_rank"]).all()


def test_a_rank_that_is_not_looked_at_keeps_its_ends() -> None:
    messages = [(0, 1, 5, 100, 110), (2, 0, 5, 100, 120)]
    found = edges.joined(made(0, messages), 0, 1, made(1, messages))
    assert found[["other_rank", "other_us"]].tolist() == [(1, 110), (2, UNKNOWN)]


@settings(deadline=None)
@given(messages=traffic(), most=st.integers(4, 40))
def test_bundles_lose_nothing(messages: list[tuple[int, int, int, int, int]], most: int) -> None:
    own = made(0, messages)
    found = edges.bundled(own, most)
    assert len(found) <= max(most, 4 * 2)
    assert int(found["count"].sum()) == len(own)
    assert int(found["size_bytes"].sum()) == int(own["size_bytes"].sum())
    assert (np.diff(found["time_us"]) >= 0).all()
    for kind in (SEND, RECEIVE):
        for rank in (1, 2):
            of = (own["kind"] == kind) & (own["other_rank"] == rank)
            bundle = (found["kind"] == kind) & (found["other_rank"] == rank)
            assert int(found["count"][bundle].sum()) == int(of.sum())


def test_few_stay_as_they_are() -> None:
    own = made(0, [(0, 1, 5, 100 + at, 200 + at) for at in range(9)])
    assert edges.bundled(own, 9) is own


@pytest.mark.parametrize(("first", "last", "count"), [(0, 50, 0), (0, 100, 1), (105, 106, 1), (111, 900, 1)])
def test_a_message_is_there_while_it_is_under_way(first: int, last: int, count: int) -> None:
    messages = [(0, 1, 5, 100, 110), (0, 2, 5, 901, 910)]
    own = edges.joined(made(0, messages), 0, 1, made(1, messages))
    expected = {(0, 50): 0, (0, 100): 1, (105, 106): 1, (111, 900): 0}[first, last]
    assert len(edges.between(own, first, last)) == expected <= count


def test_launches_are_not_messages() -> None:
    own = made(0, [(0, 1, 5, 100, 110)])
    own["kind"] = LAUNCH
    assert edges.joined(own, 0, 1, made(1, [(0, 1, 5, 100, 110)])) is own
