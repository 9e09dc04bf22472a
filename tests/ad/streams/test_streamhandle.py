"""The time in which a process could do anything."""

from __future__ import annotations

import os
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.streams.streamhandle import (
    LEAST_PERIODS,
    LEAST_S,
    TIMES_LONGEST,
    CoreUse,
    Rhythm,
    core_use,
    own_time_s,
)
from tests.ad.spinning import spinning


@pytest.mark.parametrize(
    ("before", "now", "own_s"),
    [
        (CoreUse("S", 10**9, 0), CoreUse("S", 10**9, 0), 0.25),
        (CoreUse("R", 10**9, 0), CoreUse("R", 1_250_000_000, 0), 0.25),
        (CoreUse("R", 10**9, 0), CoreUse("R", 1_050_000_000, 200_000_000), 0.05),
        (CoreUse("R", 10**9, 0), CoreUse("R", 10**9, 0), 0.0),
        (CoreUse("R", 10**9, 0), CoreUse("S", 1_001_000_000, 9 * 10**9), 0.0),
        (CoreUse("R", 10**9, 0), CoreUse("T", 10**9, 0), 0.25),
        (None, CoreUse("R", 10**9, 0), 0.25),
        (CoreUse("R", 10**9, 0), None, 0.25),
    ],
)
def test_own_time(before: CoreUse | None, now: CoreUse | None, own_s: float) -> None:
    assert own_time_s(before, now, 0.25) == pytest.approx(own_s)


def test_a_process_beside_others_waits_most_of_its_time() -> None:
    core = min(os.sched_getaffinity(0))
    with spinning(core), spinning(core), spinning(core), spinning(core) as watched:
        before, began_s = core_use(watched), time.monotonic()
        own_s = passed_s = 0.0
        while passed_s < 1.0:
            time.sleep(0.2)
            now, looked_s = core_use(watched), time.monotonic()
            own_s += own_time_s(before, now, looked_s - began_s)
            passed_s += looked_s - began_s
            before, began_s = now, looked_s
    assert own_s < 0.8 * passed_s


def test_a_stopped_process_is_seen_to_be() -> None:
    with spinning(min(os.sched_getaffinity(0))) as pid:
        os.kill(pid, signal.SIGSTOP)
        while (use := core_use(pid)) is not None and not use.is_stopped:
            time.sleep(0.01)
    assert use is not None and core_use(pid) is None


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
