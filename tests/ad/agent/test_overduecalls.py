"""Which open calls are overdue."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.agent.overduecalls import (
    BLIND_PERIODS,
    LEAST_CALLS,
    LEAST_US,
    TIMES_LONGEST,
    History,
    elapsed_us,
    find_overdue,
)
from chimbuko.ad.handoff.opencalls import OpenCalls
from chimbuko.ad.kernels.stack import FIRST, OPEN, UNCERTAIN, UNKNOWN
from chimbuko.core.arrays import as_table

NEWEST_US = 1_700_000_000_000_000
PERIOD_US = 1e6

Call = tuple[int, float, float, float, int]
"""Age at the newest event, calls seen, mean, longest, doubts."""

calls = st.tuples(
    st.sampled_from((0, 10, 1_000, 4_999_999, 6_000_000, 60_000_000)),
    st.sampled_from((0.0, 9.0, 10.0, 1e6)),
    st.sampled_from((5.0, 1e3, 1e6, 2e7)),
    st.sampled_from((10.0, 1e5, 1e6, 3e7)),
    st.sampled_from((0, 0, 0, FIRST, UNKNOWN, UNCERTAIN)),
)
threads = st.lists(st.lists(calls, max_size=5), max_size=4)
silences = st.floats(0, 4e8)


def opened_of(stacks: list[list[Call]]) -> tuple[OpenCalls, History]:
    rows = as_table(np.zeros(sum(map(len, stacks)), OPEN))
    flat = [call for stack in stacks for call in stack]
    rows["entry_us"] = [NEWEST_US - call[0] for call in flat]
    rows["doubts"] = [call[4] for call in flat]
    rows["thread"] = [thread for thread, stack in enumerate(stacks) for _ in stack]
    known = np.array([call[1:4] for call in flat], np.float64).reshape(-1, 3).T
    history = History(seen=known[0], mean_us=known[1], spread_us=known[1], longest_us=known[2])
    return OpenCalls(1, 0, 0, NEWEST_US, rows), history


def slow_overdue(stacks: list[list[Call]], silence_us: float, is_prompt: bool) -> list[int]:
    """The twin: looks at each thread from the inside out and takes the first that is overdue."""
    found = []
    first = 0
    for stack in stacks:
        for place in reversed(range(len(stack))):
            age_us, seen, mean_us, longest_us, doubts = stack[place]
            is_open_still = is_prompt or mean_us >= BLIND_PERIODS * PERIOD_US
            age = age_us + (silence_us if is_open_still else 0.0)
            is_known = seen >= LEAST_CALLS and doubts in (0, FIRST)
            if is_known and age > LEAST_US and age > TIMES_LONGEST * longest_us:
                found.append(first + place)
                break
        first += len(stack)
    return found


@settings(max_examples=400)
@given(threads, silences, st.booleans())
def test_innermost_overdue_call_of_each_thread_as_the_slow_twin_finds_it(
    stacks: list[list[Call]], silence_us: float, is_prompt: bool
) -> None:
    opened, history = opened_of(stacks)
    elapsed = elapsed_us(opened, history, silence_us, PERIOD_US, is_prompt)
    assert find_overdue(opened, history, elapsed).tolist() == slow_overdue(stacks, silence_us, is_prompt)


@given(threads, silences, silences)
def test_what_is_overdue_stays_so(stacks: list[list[Call]], one_us: float, other_us: float) -> None:
    """With time a call deeper inside may stand for it, but no thread ceases to have one."""
    opened, history = opened_of(stacks)
    found = []
    for silence_us in sorted((one_us, other_us)):
        elapsed = elapsed_us(opened, history, silence_us, PERIOD_US, True)
        found.append(
            dict(
                zip(
                    *(lambda at: (opened.calls["thread"][at].tolist(), at.tolist()))(
                        find_overdue(opened, history, elapsed)
                    ),
                    strict=True,
                )
            )
        )
    earlier, later = found
    assert earlier.keys() <= later.keys()
    assert all(later[thread] >= at for thread, at in earlier.items())


def test_main_is_never_overdue_and_a_hung_function_is_after_a_while() -> None:
    stacks = [[(3_600_000_000, 0.0, 0.0, -np.inf, 0), (1_000, 5000.0, 900.0, 2_000.0, 0)]]
    opened, history = opened_of(stacks)

    def overdue_after(seconds: float) -> list[int]:
        elapsed = elapsed_us(opened, history, seconds * 1e6, PERIOD_US, True)
        return find_overdue(opened, history, elapsed).tolist()

    assert overdue_after(4.9) == []
    assert overdue_after(5.0) == [1]
    assert overdue_after(86_400) == [1]


def test_under_tau_short_calls_of_a_silent_rank_may_have_ended_and_long_ones_have_not() -> None:
    short = (10, 5000.0, 900.0, 2_000.0, 0)
    long = (10, 50.0, BLIND_PERIODS * PERIOD_US, 1.5 * BLIND_PERIODS * PERIOD_US, 0)
    opened, history = opened_of([[long, short], [short]])
    elapsed = elapsed_us(opened, history, 100e6, PERIOD_US, is_prompt=False)
    assert elapsed.tolist() == [100e6 + 10, 10, 10]
    assert find_overdue(opened, history, elapsed).tolist() == [0]


def test_under_tau_a_call_that_later_events_show_open_is_overdue() -> None:
    """As of a thread that hangs while the main thread goes on."""
    opened, history = opened_of([[(6_000_000, 5000.0, 900.0, 2_000.0, 0)]])
    elapsed = elapsed_us(opened, history, 0.0, PERIOD_US, is_prompt=False)
    assert find_overdue(opened, history, elapsed).tolist() == [0]
