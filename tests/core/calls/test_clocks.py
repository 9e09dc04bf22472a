"""Clocks that are apart, by the messages between them."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.calls.clocks import MOST_BOUNDS, TOLERANCE_US, Bounds, Clocks, difference

EXAMPLES = settings(max_examples=60, deadline=None)
BEGIN_US, LENGTH_US = 1_700_000_000_000_000, 60_000_000

offsets = st.floats(-20_000, 20_000)
drifts = st.floats(-300e-6, 300e-6)


def exchange(clocks: Clocks, leads: dict[int, tuple[float, float]], rounds: int = 100, seed: int = 1) -> None:
    """Messages in both directions between neighbours, which take 20 µs and more."""
    chance = random.Random(seed)
    ranks = sorted(leads)

    def shown(rank: int, time_us: float) -> int:
        lead_us, drift = leads[rank]
        return round(BEGIN_US + time_us + lead_us + drift * time_us)

    for at in range(rounds):
        for one, other in pairwise(ranks):
            for sender, receiver in ((one, other), (other, one)):
                sent_us = at / rounds * LENGTH_US + chance.random() * 1_000
                took_us = 20 + chance.expovariate(1 / 100) + (chance.random() < 0.5) * 50_000
                clocks.add(
                    (0, sender), shown(sender, sent_us), (0, receiver), shown(receiver, sent_us + took_us)
                )


@EXAMPLES
@given(offsets, drifts)
def test_a_clock_is_found_to_be_ahead_as_it_is(lead_us: float, drift: float) -> None:
    clocks = Clocks()
    exchange(clocks, {0: (0.0, 0.0), 1: (0.0, 0.0), 2: (lead_us, drift), 3: (lead_us, drift)})
    clocks.update()
    for share in (0.0, 0.5, 1.0):
        time_us = round(BEGIN_US + share * LENGTH_US)
        is_us = lead_us + drift * share * LENGTH_US
        for rank in (2, 3):
            said_us = clocks.ahead_us(0, rank, time_us) - clocks.ahead_us(0, 1, time_us)
            assert said_us == pytest.approx(is_us, abs=4 * TOLERANCE_US + 300)


def test_clocks_that_agree_are_left_alone() -> None:
    clocks = Clocks()
    exchange(clocks, dict.fromkeys(range(4), (0.0, 0.0)))
    assert not clocks.update()
    assert clocks.ahead_us(0, 3, BEGIN_US) == clocks.uncertain_us(0, 3) == 0.0


def test_ranks_of_a_node_have_one_clock() -> None:
    clocks = Clocks()
    for rank in range(4):
        clocks.put_rank(0, rank, f"node{rank // 2}")
    # Rank 3 has exchanged messages with nobody.
    exchange(clocks, {0: (0.0, 0.0), 1: (0.0, 0.0), 2: (5_000.0, 0.0)})
    assert clocks.update()
    assert clocks.ahead_us(0, 3, BEGIN_US) == clocks.ahead_us(0, 2, BEGIN_US) > 4_000


@EXAMPLES
@given(offsets, drifts)
def test_what_is_uncertain_holds_the_truth(lead_us: float, drift: float) -> None:
    def shown(time_us: float) -> float:
        return time_us + lead_us + drift * time_us

    times = [share * LENGTH_US for share in (0.1, 0.4, 0.9)]
    above = [(round(time_us), shown(time_us + 2_000) - time_us) for time_us in times]
    below = [(round(shown(time_us)), time_us + 9_000 - shown(time_us)) for time_us in times]
    line = difference(above, below, 0, LENGTH_US)
    for time_us in (0, LENGTH_US):
        is_us = shown(time_us) - time_us
        assert abs(line.at(time_us) - is_us) <= line.uncertain_us + TOLERANCE_US


def test_bounds_that_contradict_each_other_still_give_a_line() -> None:
    line = difference([(0, -5_000.0), (10, -5_000.0)], [(0, -5_000.0), (10, -5_000.0)], 0, 10)
    assert abs(line.first_us) <= 5_000


def test_a_message_that_cannot_be_one_is_passed_over() -> None:
    clocks = Clocks()
    for _ in range(9):
        clocks.add((0, 0), BEGIN_US, (0, 1), BEGIN_US - 2_000_000)
    assert not clocks.update()


def test_the_closest_bounds_are_kept_and_no_more_than_there_is_room_for() -> None:
    bounds = Bounds()
    for time_us in range(0, 100_000_000, 10_000):
        bounds.add(time_us, 500.0 if time_us % 1_000_000 else 20.0)
    assert len(bounds.all()) <= MOST_BOUNDS
    assert {value for _, value in bounds.all()} == {20.0}
