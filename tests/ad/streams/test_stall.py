"""When a stream counts as silent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.streams.streamhandle import LEAST_PERIODS, LEAST_S, TIMES_LONGEST, Rhythm

TICK_S = 0.05


def rhythm_of(intervals_s: list[float], period_s: float = 1.0) -> Rhythm:
    rhythm = Rhythm(period_s)
    rhythm.note(1, 0.0)
    for number, interval_s in enumerate(intervals_s, 2):
        rhythm.note(number, interval_s)
    return rhythm


@given(st.lists(st.floats(0.01, 30), max_size=20), st.floats(0.1, 4), st.floats(0.01, 200), st.integers(1, 9))
def test_silent_beyond_all_that_it_was_before_and_not_a_moment_earlier(
    intervals_s: list[float], period_s: float, quiet_s: float, parts: int
) -> None:
    rhythm = rhythm_of(intervals_s, period_s)
    for _ in range(parts):
        rhythm.note(rhythm.steps, quiet_s / parts)
    limit_s = max(LEAST_S, LEAST_PERIODS * period_s, TIMES_LONGEST * max(intervals_s, default=0.0))
    if abs(quiet_s - limit_s) > 1e-6:
        assert rhythm.is_silent == (quiet_s > limit_s)
    rhythm.note(rhythm.steps + 1, TICK_S)
    assert not rhythm.is_silent


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=20))
def test_steps_as_usual_are_never_silence(intervals_s: list[float]) -> None:
    rhythm = Rhythm(1.0)
    for number, interval_s in enumerate(intervals_s, 1):
        rhythm.note(number - 1, interval_s / 2)
        assert not rhythm.is_silent
        rhythm.note(number, interval_s / 2)
        assert not rhythm.is_silent


def test_stream_that_never_spoke_is_not_silent() -> None:
    rhythm = Rhythm(1.0)
    rhythm.note(0, 1000.0)
    assert not rhythm.is_silent
    rhythm.note(1, 1.0)
    assert rhythm.longest_s == 0.0, "the wait for the first step is no time between two"


def test_long_pause_that_has_been_is_expected_again() -> None:
    rhythm = rhythm_of([1.0, 20.0, 1.0])
    rhythm.note(rhythm.steps, 25.0)
    assert not rhythm.is_silent
