"""What comparable calls take: as the slow twin has it, and what is made of it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.calls.callpaths import CallPaths, UsualRuntimes
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels.callpaths import level_of, runtime_of
from chimbuko.core.arrays import Rows
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.reference import usual as reference

NAMES = StreamNames(timers={0: "main", 1: "solve", 2: "relax"}, event_types={0: "ENTRY", 1: "EXIT"})
SOLVE_US = 5
"""What ``solve`` takes beside the call inside it."""


class Stream:
    """A rank that calls ``relax`` alone or inside ``solve``, one call a step."""

    def __init__(self, use_inclusive: bool = False, most_paths: int = 64) -> None:
        self.stacks, self.paths = CallStacks(0), CallPaths(most_paths)
        self.usual = UsualRuntimes(use_inclusive, most_paths)
        self._now_us = 1_700_000_000_000_000
        self._step = 0

    def call(self, relax_us: int, in_solve: bool) -> Rows:
        """The calls that it makes, with their paths, ``relax`` first."""
        begin_us, end_us = self._now_us, self._now_us + relax_us
        rows = [(0, 2, begin_us), (1, 2, end_us)]
        if in_solve:
            rows = [(0, 1, begin_us), *rows, (1, 1, end_us + SOLVE_US)]
        events = np.array([(0, 0, 0, kind, timer, time) for kind, timer, time in rows], np.uint64)
        empty = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
        self.stacks.build(TraceStep(self._step, events, *empty), NAMES)
        self.paths.read(self.stacks, self.usual)
        self._now_us, self._step = end_us + 100, self._step + 1
        calls = self.stacks.calls[: self.stacks.count]
        return calls[np.argsort(calls["function"])[::-1]]

    def expected_us(self, calls: Rows, of_function_us: float) -> float:
        """Of the first of them."""
        return float(self.usual.expected_us(calls, np.full(len(calls), of_function_us))[0])


RUNTIMES = st.lists(st.integers(0, 10**7), min_size=1, max_size=400)


@settings(deadline=None)
@given(RUNTIMES)
def test_as_the_slow_twin_has_it(runtimes: list[int]) -> None:
    stream = Stream()
    for runtime in runtimes:
        calls = stream.call(runtime, in_solve=False)
    # The first call of all begins in the dark.
    usual_us = reference.usual_us([float(runtime) for runtime in runtimes[1:]])
    # Far away from the function's, so that the path's counts wherever it is known.
    assert stream.expected_us(calls, 1e12) == pytest.approx(1e12 if usual_us is None else usual_us)


@given(st.floats(0.5, 1e12))
def test_levels_rise_with_the_runtime_and_lead_back_to_it(runtime_us: float) -> None:
    assert level_of(runtime_us) == pytest.approx(reference.level_of(runtime_us))
    assert runtime_of(level_of(runtime_us)) == pytest.approx(runtime_us)
    assert level_of(runtime_us) < level_of(2 * runtime_us)


def of(stream: Stream, runtimes: Sequence[int], in_solve: bool) -> Rows:
    for runtime in runtimes:
        calls = stream.call(runtime, in_solve)
    return calls


def test_a_path_counts_where_it_clearly_differs_from_the_function() -> None:
    stream = Stream()
    alone = of(stream, [10] * 50, in_solve=False).copy()
    inside = of(stream, [1000] * 50, in_solve=True).copy()
    assert stream.expected_us(alone, 12.0) == 12.0
    assert stream.expected_us(inside, 12.0) == pytest.approx(1000)
    assert stream.expected_us(inside, 500.0) == 500.0
    assert stream.expected_us(alone, 500.0) == pytest.approx(10)


def test_few_calls_say_nothing_and_single_delays_little() -> None:
    stream = Stream()
    assert stream.expected_us(of(stream, [1000] * 7, in_solve=True), 12.0) == 12.0
    delayed = of(stream, [1000, 250_000, 1000, 250_000], in_solve=True)
    assert stream.expected_us(delayed, 12.0) == pytest.approx(1000, rel=0.1)


@pytest.mark.compiled
def test_a_function_that_changes_is_followed() -> None:
    stream = Stream()
    calls = of(stream, [100] * 200 + [1000] * 3000, in_solve=True)
    assert stream.expected_us(calls, 1e6) == pytest.approx(1000, rel=0.2)


def test_inclusive_runtimes_are_learned_where_these_are_judged() -> None:
    for use_inclusive, wanted_us in ((False, SOLVE_US), (True, 1000 + SOLVE_US)):
        stream = Stream(use_inclusive)
        solve = of(stream, [1000] * 20, in_solve=True)[1:]
        assert stream.expected_us(solve, 1e9) == pytest.approx(wanted_us)


def test_memory_is_bounded_and_what_is_known_survives_pickling() -> None:
    stream = Stream(most_paths=2)
    alone = of(stream, [10] * 20, in_solve=False)
    again = pickle.loads(pickle.dumps(stream.usual))
    assert float(again.expected_us(alone, np.full(len(alone), 1e6))[0]) == pytest.approx(10)
    # There is no room for further paths: the function's own counts.
    assert stream.expected_us(of(stream, [1000] * 20, in_solve=True), 77.0) == 77.0
