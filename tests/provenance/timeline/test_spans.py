"""Reduction of spans, against one that walks through a list."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.provenance.timeline import spans
from chimbuko.provenance.timeline.spans import (
    ANOMALY,
    BUSY,
    RECORDED,
    SPAN,
    SpanRow,
    SpanWindow,
    reduced,
    times_by_function,
    within,
)


class Plain(NamedTuple):
    """A span as numbers."""

    begin: int
    end: int
    exclusive: int
    longest: int
    function: int
    row: int
    calls: int
    flags: int


def made(calls: list[tuple[int, int, int, int]]) -> spans.Spans:
    """A row of calls: gap before it, runtime, function and flags of each."""
    row = np.zeros(len(calls), SPAN)
    at = 1_000_000
    for number, (gap, runtime, function, flags) in enumerate(calls):
        at += gap
        row[number] = (at, at + runtime, runtime // 2, runtime, function, 3, number, 1, flags)
        at += runtime
    return row


def plain(row: spans.Spans) -> list[Plain]:
    """As tuples that can be compared."""
    return [
        Plain(begin, end, exclusive, longest, function, number, count, flags)
        for begin, end, exclusive, longest, function, _, number, count, flags in row.tolist()
    ]


def naive(calls: list[Plain], level: int) -> list[Plain]:
    """The same by the definition: one call after the other."""
    column = 2**level
    groups: list[list[Plain]] = []
    for call in calls:
        is_short = call.longest < column and not call.flags
        before = groups[-1][-1] if groups else None
        if (
            before is not None
            and is_short
            and before.longest < column
            and not before.flags
            and call.begin - before.end < column
            and call.begin // (16 * column) == before.begin // (16 * column)
        ):
            groups[-1].append(call)
        else:
            groups.append([call])
    return [_merged(group) for group in groups]


def _merged(group: list[Plain]) -> Plain:
    if len(group) == 1:
        return group[0]
    longest = max(group, key=lambda call: call.longest)
    return longest._replace(
        begin=group[0].begin,
        end=group[-1].end,
        exclusive=sum(call.exclusive for call in group),
        calls=len(group),
        flags=BUSY,
    )


CALLS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(0, 70),
        st.integers(0, 3),
        st.sampled_from([0] * 6 + [ANOMALY | RECORDED, RECORDED]),
    ),
    max_size=120,
)


@settings(deadline=None)
@given(calls=CALLS, level=st.integers(0, 9))
def test_spans_are_what_the_definition_says(calls: list[tuple[int, int, int, int]], level: int) -> None:
    row = made(calls)
    assert plain(reduced(row, level)) == naive(plain(row), level)


@settings(deadline=None)
@given(calls=CALLS, lower=st.integers(0, 5), more=st.integers(0, 5))
def test_what_is_reduced_already_gives_the_same(
    calls: list[tuple[int, int, int, int]], lower: int, more: int
) -> None:
    row = made(calls)
    step_by_step = reduced(reduced(row, lower), lower + more)
    assert plain(step_by_step) == plain(reduced(row, lower + more))


@settings(deadline=None)
@given(
    calls=CALLS,
    level=st.integers(0, 6),
    lower=st.integers(0, 6),
    first=st.integers(-10, 4000),
    length=st.integers(0, 4000),
)
def test_a_range_has_the_spans_of_the_whole_row_that_overlap_it(
    calls: list[tuple[int, int, int, int]], level: int, lower: int, first: int, length: int
) -> None:
    row = made(calls)
    begin, end = 1_000_000 + first, 1_000_000 + first + length
    whole = [span for span in plain(reduced(row, level)) if span.end >= begin and span.begin <= end]
    assert plain(within(reduced(row, min(lower, level)), begin, end, level)) == whole


def test_abnormal_calls_are_never_merged() -> None:
    row = made([(1, 1, 0, ANOMALY if number % 7 == 0 else 0) for number in range(700)])
    assert int((reduced(row, 20)["flags"] & ANOMALY).astype(bool).sum()) == 100


@pytest.mark.parametrize("level", [0, 4, 12])
def test_no_call_gets_lost(level: int) -> None:
    row = made([(number % 5, number % 30, number % 4, 0) for number in range(5000)])
    found = reduced(row, level)
    assert int(found["count"].sum()) == 5000
    assert (found["begin_us"][1:] >= found["end_us"][:-1]).all()


class Nested(NamedTuple):
    """A call of a made-up thread."""

    depth: int
    begin: int
    end: int
    function: int
    flags: int


@st.composite
def nested(draw: st.DrawFn) -> list[Nested]:
    """Calls of a thread within a hundred µs, callees within their callers."""
    calls: list[Nested] = []

    def fill(first: int, last: int, depth: int) -> None:
        at = first
        while at < last and depth < 4 and draw(st.booleans()):
            begin = draw(st.integers(at, last - 1))
            end = draw(st.integers(begin + 1, last))
            calls.append(Nested(depth, begin, end, draw(st.integers(0, 2)), draw(st.sampled_from((0, 1)))))
            fill(begin, end, depth + 1)
            at = end

    fill(0, 100, 0)
    return calls


@settings(max_examples=60, deadline=None)
@given(nested(), st.integers(0, 99), st.integers(1, 100))
def test_times_in_a_range_are_those_of_each_microsecond(calls: list[Nested], first: int, length: int) -> None:
    last = min(100, first + length)
    rows = []
    for depth in {call.depth for call in calls}:
        of_depth = sorted(call for call in calls if call.depth == depth)
        records = np.zeros(len(of_depth), SPAN)
        for at, call in enumerate(of_depth):
            inner = sum(one.end - one.begin for one in calls if _is_child(one, call))
            own = call.end - call.begin - inner
            records[at] = (
                call.begin,
                call.end,
                own,
                call.end - call.begin,
                call.function,
                0,
                at,
                1,
                call.flags,
            )
        rows.append(SpanRow(0, depth, records))
    expected = {}
    for function in range(3):
        under_way = [
            call for call in calls if call.function == function and call.begin < last and call.end > first
        ]
        stacks = [
            [call for call in sorted(calls) if call.begin <= us < call.end] for us in range(first, last)
        ]
        expected[str(function)] = (
            len(under_way),
            sum(any(call.function == function for call in stack) for stack in stacks),
            sum(bool(stack) and stack[-1].function == function for stack in stacks),
            sum(call.flags & ANOMALY for call in under_way),
        )
    found = times_by_function(
        SpanWindow(["0", "1", "2"], rows, known_us={0: [(0, 30), (30, 100)]}), first, last
    )
    told = {one.function: (one.calls, one.inclusive_us, one.exclusive_us, one.anomalies) for one in found}
    assert told == {name: times for name, times in expected.items() if times[0]}
    assert [one.exclusive_us for one in found] == sorted((one.exclusive_us for one in found), reverse=True)


def _is_child(one: Nested, call: Nested) -> bool:
    return one.depth == call.depth + 1 and call.begin <= one.begin and one.end <= call.end


def test_of_a_call_without_its_callees_own_time_is_what_was_recorded() -> None:
    record = np.zeros(1, SPAN)
    record[0] = (10, 110, 30, 100, 0, 0, 0, 1, RECORDED)
    window = SpanWindow(["f"], [SpanRow(0, 2, record)], known_us={0: [(0, 70), (90, 200)]})
    assert times_by_function(window, 0, 200)[0].exclusive_us == 30
    # What is known of a part of it: without the times in which its callees were not kept.
    assert times_by_function(window, 60, 200)[0].exclusive_us == 30
    assert times_by_function(window, 60, 200)[0].inclusive_us == 50
    assert times_by_function(window, 70, 90)[0].exclusive_us == 0
