"""Pace of fast looks: what they cost decides when the next ones are due, and waits decide at whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.monitor.collector.fastlooks import (
    AGAIN_SHARE,
    FAST_S,
    IDLE_S,
    OTHERS_S,
    OTHERS_SHARE,
    OTHERS_SOONEST_S,
    SLOWEST_S,
    SPARED_US,
    Look,
    LookPace,
    Waits,
)

costs_us = st.integers(0, 40_000)
looks = st.lists(st.tuples(st.integers(1_000, 2_000_000), st.booleans(), costs_us, costs_us), max_size=120)
"""Looks at ranks: µs since the one before, whether a rank waited, and what this and the next look cost."""
BEGIN_US = 1_700_000_000_000_000


def looked(pace: LookPace, now_us: int, has_waited: bool, cost_us: int = 0, others_us: int = 0) -> Look:
    """A look at ranks, and then at the others that the pace asks for."""
    look = pace.ranks_looked(now_us, has_waited, cost_us)
    if look is Look.ALL:
        pace.all_looked(now_us, others_us)
    elif look is Look.RUNNING:
        pace.running_looked(now_us, others_us)
    pace.validate_state()
    return look


@given(looks)
def test_looks_at_others_keep_to_their_share_of_a_core(made: list[tuple[int, bool, int, int]]) -> None:
    pace, now_us = LookPace(), BEGIN_US
    spent_us, last_us = {Look.ALL: 0, Look.RUNNING: 0}, {Look.ALL: 0, Look.RUNNING: 0}
    for after_us, has_waited, cost_us, others_us in made:
        now_us += after_us
        look = looked(pace, now_us, has_waited, cost_us, others_us)
        if look is not Look.NOBODY:
            spent_us[look] += others_us
            last_us[look] = others_us
    for look, share in (Look.ALL, OTHERS_SHARE), (Look.RUNNING, AGAIN_SHARE):
        # The last look is paid for by the pause behind it.
        assert (spent_us[look] - last_us[look]) / share <= now_us - BEGIN_US + SPARED_US + len(made)


@given(looks)
def test_a_rank_that_waited_leads_to_a_look_at_all_others_and_one_more_after_the_wait(
    made: list[tuple[int, bool, int, int]],
) -> None:
    pace, now_us, owed = LookPace(), BEGIN_US, False
    for after_us, has_waited, _, _ in made:
        now_us += after_us
        is_owed = owed or has_waited
        look = looked(pace, now_us, has_waited)
        owed = has_waited if look is Look.ALL else is_owed
        assert owed is (pace.waits is not Waits.NONE)
        if after_us >= 1e6 * OTHERS_SOONEST_S and is_owed:
            assert look is Look.ALL, "nothing costs anything here"


def test_without_waits_others_are_looked_at_seldom() -> None:
    pace = LookPace()
    seen = [looked(pace, BEGIN_US + 20_000 * count, False) for count in range(round(2.1 * OTHERS_S / 0.02))]
    assert [seen.count(look) for look in Look] == [len(seen) - 3, 3, 0]


def test_who_ran_last_is_looked_at_again_while_a_rank_waits_and_once_after() -> None:
    pace = LookPace()
    looked(pace, BEGIN_US, True)
    seen = [looked(pace, BEGIN_US + 20_000 * at, has_waited) for at, has_waited in ((1, True), (2, False))]
    assert (seen, pace.waits) == ([Look.RUNNING, Look.RUNNING], Waits.OVER)
    seen = [looked(pace, BEGIN_US + 20_000 * at, False) for at in (3, 4, 5)]
    assert (seen, pace.waits) == ([Look.NOBODY, Look.NOBODY, Look.ALL], Waits.NONE)


@given(costs_us, st.integers(200, 400))
def test_looks_at_ranks_are_as_far_apart_as_they_cost(cost_us: int, count: int) -> None:
    pace = LookPace()
    assert pace.next_s == IDLE_S, "no rank runs"
    pace.note_running(True)
    for number in range(count):
        looked(pace, BEGIN_US + 20_000 * number, False, cost_us)
    assert FAST_S <= pace.next_s <= SLOWEST_S
    assert pace.next_s >= 0.99 * min(cost_us / 1e6 / 0.0015, SLOWEST_S)
