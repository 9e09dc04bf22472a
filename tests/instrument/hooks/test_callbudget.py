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

from chimbuko.causes.evidence.flag import Work
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


class Kept:
    """Rows of a thread, and the names of its counters."""

    def __init__(self, events: list[int]) -> None:
        self.events = events
        self.work: list[int] = []
        self.counters: list[str] = []

    def buffer(self) -> Kept:
        return self

    def counter_number(self, name: str) -> int:
        self.counters.append(name)
        return len(self.counters)

    def counted(self) -> dict[str, int]:
        """What was counted between the last two events, by name."""
        rows = [tuple(self.work[at : at + 3]) for at in range(0, len(self.work), 3)]
        between = [row for row in rows if self.events[-3] < row[2] < self.events[-1]]
        return {self.counters[number - 1]: amount for number, amount, _ in between}


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., CallBudget]]:
    """A function that begins a recording into a list, or what is kept."""
    begun: list[CallBudget] = []

    def begin(share: str, rows: list[int] | Kept) -> CallBudget:
        monkeypatch.setenv(OVERHEAD_VARIABLE, share)
        budget = CallBudget(str(hook_library()))
        begun.append(budget)
        budget.begin()
        kept = rows if isinstance(rows, Kept) else Kept(rows)
        budget.begin_thread(kept)  # type: ignore[arg-type]
        return budget

    yield begin
    for one in begun:
        one.end()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, share=st.sampled_from([NONE, SOME, ALL]))
def test_a_call_is_recorded_with_its_end_or_counted(
    budget: Callable[..., CallBudget], actions: list[tuple[int, int] | None], share: str
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
    budget: Callable[..., CallBudget],
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
    budget: Callable[..., CallBudget],
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
    budget: Callable[..., CallBudget],
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
    budget: Callable[..., CallBudget],
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


def spent(cpu_ms: float) -> None:
    """Compute for so long."""
    end_ns = time.thread_time_ns() + cpu_ms * 1e6
    while time.thread_time_ns() < end_ns:
        pass


def test_what_a_thread_did_in_a_call_that_took_long_is_counted(budget: Callable[..., CallBudget]) -> None:
    kept = Kept([])
    begun = budget(ALL, kept)
    function = made_functions()[0]
    begun.add(function.__code__, 2, "function")
    outer, inner = function().gi_frame, function().gi_frame  # type: ignore[attr-defined]
    begun.step(outer, True)
    begun.step(inner, True)
    assert set(Work) <= set(kept.counters)
    spent(20)
    begun.step(inner, False)
    assert 18_000 < kept.counted()[Work.CPU_TIME] < 100_000
    # What comes between two calls is of the one around them.
    time.sleep(0.02)
    begun.step(inner, True)
    assert kept.counted().get(Work.CPU_TIME, 0) < 10_000 < kept.counted()[Work.OFF_CORE]
    begun.step(inner, False)
    # Others have recorded an event meanwhile, such as a coroutine's turn: nobody knows whose work it was.
    kept.events += 4, time.perf_counter_ns()
    spent(2)
    begun.step(outer, False)
    assert not kept.counted()
    # No call is open that it could be of.
    spent(2)
    begun.step(outer, True)
    assert not kept.counted()


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
