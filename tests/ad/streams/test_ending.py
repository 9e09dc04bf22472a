"""How long the end of a run waits for streams whose readers get no core, or were stopped with their agent."""

from __future__ import annotations

from itertools import cycle, islice

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.agent.agent import END_TIMEOUT_S, STARVED_END_S, Ending

TICK_S = 0.25
TIMEOUT_TICKS = int(END_TIMEOUT_S / TICK_S)


def test_streams_that_give_nothing_are_over_after_ten_seconds() -> None:
    ending = Ending()
    ending.tick(92, TICK_S, TICK_S)
    for _ in range(TIMEOUT_TICKS):
        assert not ending.is_over
        ending.tick(92, TICK_S, TICK_S)
    assert not ending.is_over
    ending.tick(92, TICK_S, TICK_S)
    assert ending.is_over


def test_readers_that_wait_for_a_core_are_waited_for() -> None:
    """At a load of 18 on two cores the last 8 of 100 steps of a rank had not come within ten seconds."""
    ending = Ending()
    ending.tick(92, TICK_S, TICK_S)
    for _ in range(2 * TIMEOUT_TICKS):
        ending.tick(92, TICK_S / 9, TICK_S)
    assert not ending.is_over
    ending.tick(93, TICK_S / 9, TICK_S)
    assert ending.quiet_s == ending.starved_s == 0.0


@given(st.lists(st.floats(0.0, TICK_S), min_size=1))
def test_the_end_comes_whatever_readers_get(own_s: list[float]) -> None:
    ending = Ending()
    for one in islice(cycle(own_s), int(STARVED_END_S / TICK_S) + 2):
        ending.tick(92, one, TICK_S)
    assert ending.is_over


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 1.0)), max_size=200))
def test_nothing_is_given_up_that_goes_on(ticks: list[tuple[bool, float]]) -> None:
    ending, drained, since = Ending(), 0, 0
    for has_come, own_s in ticks:
        drained, since = drained + has_come, 0 if has_come else since + 1
        ending.tick(drained, own_s, TICK_S)
        assert since >= TIMEOUT_TICKS or not ending.is_over
