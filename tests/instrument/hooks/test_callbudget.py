"""Calls that a budget keeps and leaves out: each EXIT has its ENTRY, and none is missing without a word."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimbuko.core import sourcecensus, traceschema
from chimbuko.instrument.hooks import codes
from chimbuko.instrument.hooks.callbudget import OVERHEAD_VARIABLE, CallBudget
from chimbuko.instrument.recorder import overhead
from chimbuko.instrument.tracer.hooklibrary import hook_library

FUNCTIONS, FRAMES = 4, 3
NONE, SOME, ALL = "1e-7", "1e-3", "1"
"""Budgets: of no call, of some, of all."""
ACTIONS = st.lists(
    st.one_of(st.none(), st.tuples(st.integers(0, FUNCTIONS - 1), st.integers(0, FRAMES - 1))),
    max_size=400,
)
"""Looks, and frames that begin, or that end where they have begun."""


def made_functions() -> list[Callable[[], Iterator[None]]]:
    """Generator functions, of whose frames any number lives at a time."""
    made: dict[str, Any] = {}
    for number in range(FUNCTIONS):
        exec(f"def function{number}():\n    yield", made)
    return [made[f"function{number}"] for number in range(FUNCTIONS)]


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, list[int]], CallBudget]]:
    """A function that begins a recording into a list."""
    begun: list[CallBudget] = []

    def begin(share: str, events: list[int]) -> CallBudget:
        monkeypatch.setenv(OVERHEAD_VARIABLE, share)
        budget = CallBudget(str(hook_library()))
        begun.append(budget)
        budget.begin()
        budget.begin_thread(events)
        return budget

    yield begin
    for one in begun:
        one.end()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, share=st.sampled_from([NONE, SOME, ALL]))
def test_a_call_is_recorded_with_its_end_or_counted(
    budget: Callable[[str, list[int]], CallBudget], actions: list[tuple[int, int] | None], share: str
) -> None:
    events: list[int] = []
    begun = budget(share, events)
    functions = made_functions()
    for number, function in enumerate(functions, 1):
        begun.add(function.__code__, number << 1, f"function{number} [{{f.py}}{{1}}]")
    frames = [[function() for _ in range(FRAMES)] for function in functions]
    is_open: dict[tuple[int, int], bool] = {}
    calls = recorded = 0
    for action in actions:
        if action is None:
            begun.look()
            continue
        before = len(events)
        frame = frames[action[0]][action[1]].gi_frame  # type: ignore[attr-defined]
        assert begun.step(frame, action not in is_open)
        told = events[before:]
        if action in is_open:
            # The end of a call is told if its begin was, whatever was decided meanwhile.
            assert told[::2] == ([(action[0] + 1) << 1 | 1] if is_open.pop(action) else [])
        else:
            assert told[::2] in ([], [(action[0] + 1) << 1])
            is_open[action] = bool(told)
            calls += 1
            recorded += bool(told)
    assert events[1::2] == sorted(events[1::2])
    counts = json.loads(begun.described().get(codes.CALL_COUNTS, "{}"))
    assert recorded + counts.get(codes.LEFT_OUT, 0) == calls
    assert share != ALL or recorded == calls


def test_what_is_left_out_is_named_with_the_most_calls_first(
    budget: Callable[[str, list[int]], CallBudget],
) -> None:
    begun = budget(NONE, [])
    for number, (function, calls) in enumerate(zip(made_functions(), (100, 3, 200, 0), strict=True), 1):
        begun.add(function.__code__, number << 1, f"function{number} [{{f.py}}{{1}}]")
        frame = function().gi_frame  # type: ignore[attr-defined]
        for is_begin in itertools.islice(itertools.cycle((True, False)), 2 * calls):
            begun.step(frame, is_begin)
    # Of each function the first 16 calls are recorded.
    said = begun.described()
    assert said[codes.LEFT_OUT_FUNCTIONS].startswith("268 calls (184 of function3, 84 of function1); ")
    assert json.loads(said[codes.CALL_COUNTS]) == {codes.LEFT_OUT: 268, codes.UNCOUNTED: 0}


def test_a_call_that_was_left_out_has_no_end_when_its_function_is_kept_again(
    budget: Callable[[str, list[int]], CallBudget],
) -> None:
    events: list[int] = []
    # Room for 60 calls in a look.
    begun = budget("2.4e-4", events)
    function = made_functions()[0]
    begun.add(function.__code__, 2, "function")
    frame = function().gi_frame  # type: ignore[attr-defined]
    told = -1
    while told < len(events):
        begun.step(frame, False)
        told = len(events)
        begun.step(frame, True)
    # Then it was called less than 60 times in 0.1 s.
    time.sleep(0.3)
    begun.look()
    begun.step(frame, False)
    assert len(events) == told
    begun.step(frame, True)
    assert events[told::2] == [2]


def test_functions_that_are_new_are_asked_about_and_those_of_others_are_not_told(
    budget: Callable[[str, list[int]], CallBudget],
) -> None:
    events: list[int] = []
    begun = budget(ALL, events)
    ours, others, gone, _ = made_functions()
    begun.add(ours.__code__, 2, "ours")
    begun.add(others.__code__, -1, "")
    begun.add(gone.__code__, 4, "gone")
    begun.forget(id(gone.__code__))
    told = [begun.step(one().gi_frame, True) for one in (ours, others, gone)]  # type: ignore[attr-defined]
    assert (told, events[::2]) == ([True, True, False], [2])
    begun.end()
    assert not begun.step(ours().gi_frame, True)  # type: ignore[attr-defined]


def test_a_call_that_is_found_open_has_an_end_unless_its_function_is_left_out(
    budget: Callable[[str, list[int]], CallBudget],
) -> None:
    events: list[int] = []
    begun = budget(NONE, events)
    kept, left_out, *_ = made_functions()
    begun.add(kept.__code__, 2, "kept")
    begun.add(left_out.__code__, 4, "left out")
    frame, short = kept().gi_frame, left_out().gi_frame  # type: ignore[attr-defined]
    for is_begin in (True, False) * 20:
        begun.step(short, is_begin)
    del events[:]
    assert begun.adopts(frame) and not begun.adopts(short)
    for one in (frame, short):
        begun.step(one, False)
    assert events[::2] == [3]


def test_a_python_without_its_lock_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(OSError, match="lock"):
        CallBudget(str(hook_library()))


def test_names_are_those_of_readers() -> None:
    assert (codes.LEFT_OUT_FUNCTIONS, codes.NOT_RECORDED) == (
        traceschema.LEFT_OUT_FUNCTIONS,
        traceschema.NOT_RECORDED,
    )
    assert (codes.CALL_COUNTS, codes.LEFT_OUT, codes.UNCOUNTED) == (
        sourcecensus.CALL_COUNTS,
        sourcecensus.LEFT_OUT,
        sourcecensus.UNCOUNTED,
    )
    assert OVERHEAD_VARIABLE == overhead.OVERHEAD_VARIABLE
