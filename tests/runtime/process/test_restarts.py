"""When processes that ended are started again: at any times of their ends."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.runtime.process.supervisor import LONGEST_PAUSE_S, MOST_IN_A_ROW, STEADY_S, Revivals, pause_s

LIVES_S = st.floats(0.0, 2 * STEADY_S)
"""How long a process lasts."""
SHORT_LIVES_S = st.floats(0.0, LONGEST_PAUSE_S)


FRESH = Revivals()


def lived(lives_s: Iterable[float], revivals: Revivals = FRESH) -> tuple[Revivals, float]:
    """What stands, and the time, after processes that lasted so long were each started again when due."""
    now_s = revivals.last_s
    for life_s in lives_s:
        now_s += life_s
        if not revivals.is_due(now_s):
            now_s = revivals.last_s + pause_s(revivals.in_a_row)
        assert revivals.is_due(now_s)
        revivals = revivals.started(now_s)
    return revivals, now_s


def test_the_first_time_it_is_started_again_at_once() -> None:
    assert FRESH.is_due(0.0) and not FRESH.is_hopeless(0.0)


def test_pauses_double_up_to_the_longest() -> None:
    assert [pause_s(number) for number in range(6)] == [0.0, 1.0, 2.0, 4.0, 4.0, 4.0]


@given(st.lists(LIVES_S, max_size=30), st.floats(0.0, 2 * STEADY_S))
def test_nobody_waits_longer_than_the_longest_pause(lives_s: list[float], later_s: float) -> None:
    revivals, now_s = lived(lives_s)
    assert revivals.is_due(now_s + LONGEST_PAUSE_S + later_s)


@given(st.lists(SHORT_LIVES_S, min_size=MOST_IN_A_ROW, max_size=MOST_IN_A_ROW))
def test_it_is_given_up_only_after_so_many_in_a_row(lives_s: list[float]) -> None:
    revivals, now_s = lived(lives_s[:-1])
    assert not revivals.is_hopeless(now_s)
    revivals, now_s = lived(lives_s[-1:], revivals)
    assert revivals.is_hopeless(now_s)


@given(st.lists(LIVES_S, max_size=30))
def test_what_has_lasted_begins_anew(lives_s: list[float]) -> None:
    revivals, now_s = lived(lives_s)
    steady_s = now_s + STEADY_S
    assert revivals.is_due(steady_s) and not revivals.is_hopeless(steady_s)
    assert revivals.started(steady_s).in_a_row == 1


@given(st.lists(st.floats(STEADY_S, 10 * STEADY_S), max_size=100))
def test_what_lasts_each_time_is_never_given_up(lives_s: list[float]) -> None:
    revivals, now_s = lived(lives_s)
    assert not revivals.is_hopeless(now_s)
