"""Long calls that stand where long calls always stand, and those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.ad.analysis.placedcalls import placed
from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.kernels.stack import CALL, NONE
from chimbuko.core.arrays import BoolArray, Float64Array, Rows
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import BUCKETED_PROFILE, PLACED
from chimbuko.core.traceschema import StreamNames, TraceStep

USUAL_US = 10.0
LONG_US = 400.0
TURNS = 30


def calls_of(callers: list[int], threads: int = 1) -> Rows:
    """Calls by so many calls of a caller each, whose rows follow each other; those of threads in turn."""
    parents = np.repeat(np.arange(len(callers)), callers)
    calls = np.zeros(threads * len(parents), CALL)
    for thread in range(threads):
        calls["parent"][thread::threads] = parents + thread * len(callers)
        calls["thread"][thread::threads] = thread
    return calls


def runtimes_us(is_long: BoolArray) -> Float64Array:
    random = np.random.default_rng(1)
    return np.where(is_long, LONG_US, USUAL_US) * random.uniform(0.7, 1.4, len(is_long))


def test_call_at_the_same_place_of_each_caller_is_placed_however_many_these_make() -> None:
    calls = calls_of(np.random.default_rng(1).integers(5, 40, TURNS).tolist())
    is_long = np.append(True, np.diff(calls["parent"]) > 0)
    is_long = np.roll(is_long, 2)
    assert placed(calls, runtimes_us(is_long), 0) == (TURNS, TURNS)
    # Their callers began earlier: which of their calls these are is not known, and there is no fixed pattern.
    assert placed(calls, runtimes_us(is_long), TURNS) == (TURNS, 0)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("places", [[10], [3, 7], [2, 3, 4], [1, 5, 6]])
def test_calls_at_the_same_steps_of_a_pattern_are_placed(places: list[int], threads: int) -> None:
    is_long = np.zeros(11 * TURNS * threads, np.bool_)
    calls = calls_of([11 * TURNS], threads)
    calls["parent"] = NONE
    for place in places:
        for thread in range(threads):
            is_long[place * threads + thread :: 11 * threads] = True
    count = TURNS * len(places) * threads
    assert placed(calls, runtimes_us(is_long), 0) == (count, count)
    # A few delays beside them do not hide the pattern, and are no part of it.
    is_long[[threads * 11 * turn for turn in (4, 13, 20)]] = True
    assert placed(calls, runtimes_us(is_long), 0) == (count + 3, count)


@pytest.mark.parametrize("seed", range(20))
def test_delays_that_hit_now_this_call_and_now_that_are_not_placed(seed: int) -> None:
    random = np.random.default_rng(seed)
    calls = calls_of([11] * TURNS)
    count, at_places = placed(calls, runtimes_us(random.random(len(calls)) < random.uniform(0.03, 0.1)), 0)
    assert count >= 3
    assert at_places <= 0.2 * count


def test_stretches_in_which_all_is_slow_have_no_places() -> None:
    calls = calls_of([11] * TURNS)
    is_long = np.zeros(len(calls), np.bool_)
    for begin, end in ((40, 60), (130, 145), (250, 275)):
        is_long[begin:end] = True
    assert placed(calls, runtimes_us(is_long), 0) == (60, 0)
    assert placed(calls, runtimes_us(np.arange(len(calls)) < 0.8 * len(calls)), 0) == (0, 0)


def test_times_that_hit_about_every_hundredth_call_are_not_placed() -> None:
    random = np.random.default_rng(1)
    calls = calls_of([10_000])
    calls["parent"] = NONE
    at = np.cumsum(random.integers(98, 103, 99))
    is_long = np.isin(np.arange(len(calls)), at)
    count, at_places = placed(calls, runtimes_us(is_long), 0)
    assert (count, at_places) == (99, 0)


def test_calls_that_are_not_judged_take_their_places_all_the_same() -> None:
    calls = calls_of([11] * TURNS)
    is_long = np.arange(len(calls)) % 11 == 10
    of_calls_us = runtimes_us(is_long)
    of_calls_us[[0, 40, 41, 300]] = -1.0
    assert placed(calls, of_calls_us, 0) == (TURNS, TURNS)
    assert placed(calls[:0], of_calls_us[:0], 0) == (0, 0)
    assert placed(calls[:9], np.full(9, -1.0), 0) == (0, 0)


def test_analysis_learns_of_the_functions_that_take_time_what_places_their_long_calls_have() -> None:
    analysis = StreamAnalysis(StreamIdentity(0, 0, "node1"), AnalysisConfig())
    names, now_us = (
        StreamNames(timers={0: "main", 1: "turn", 2: "region", 3: "now and then", 4: "short"}),
        1_000,
    )
    rows: list[list[int]] = []

    def enter(function: int, length_us: int) -> None:
        nonlocal now_us
        rows.append([0, 0, 0, 0, function, now_us])
        now_us += length_us
        rows.append([0, 0, 0, 1, function, now_us])

    random = np.random.default_rng(1)
    rows.append([0, 0, 0, 0, 0, now_us])
    for turn in range(3 * TURNS):
        rows.append([0, 0, 0, 0, 1, now_us])
        for region in range(11):
            enter(2, random.integers(300, 500) if region == 10 else random.integers(5, 12))
            enter(3, random.integers(300, 500) if random.random() < 0.08 else random.integers(5, 12))
            # Too little in all for a finding.
            enter(4, 12 if region == 3 and turn % 3 == 0 else 0)
        rows.append([0, 0, 0, 1, 1, now_us])
        if turn % TURNS == TURNS - 1:
            events = np.array(rows, np.uint64)
            step = TraceStep(turn // TURNS, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))
            analysis.analyse(step, names)
            rows.clear()
    learned = analysis.hand_out(0).learned
    told = learned.table[:, [BUCKETED_PROFILE.slices[column.name].start for column in PLACED]]
    of = dict(zip(learned.timers.tolist(), told.tolist(), strict=True))
    assert of[2] == [3 * TURNS, 3 * TURNS]
    assert of[3][0] > 60 and of[3][1] < 0.1 * of[3][0]
    assert of[4] == [0, 0]
