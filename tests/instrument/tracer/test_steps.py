"""Handed-over rows become steps in TAU's layout, however they were cut up on the way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.pauses import Pause
from chimbuko.core.traceschema import (
    COMM_THREAD,
    COUNTER_THREAD,
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TIMER,
    EVENT_TYPE,
)
from chimbuko.instrument.hooks.codes import FOUND
from chimbuko.instrument.tracer.chunks import ENTRY, EXIT, RECEIVE, SEND, Handover, Header, ThreadRows
from chimbuko.instrument.tracer.steps import LARGEST_STEP_BYTES, StepBuilder, open_timers

HEADER = Header("app", rank=3, clock_offset_ns=1_000_000_000_000)

Row = tuple[int, ...]


def packed(rows: list[Row]) -> bytes:
    return np.array(rows, np.int64).tobytes()


def handover(
    until_ns: int,
    thread: int = 0,
    events: list[Row] | None = None,
    comms: list[Row] | None = None,
    counters: list[Row] | None = None,
) -> Handover:
    rows = ThreadRows(thread, packed(events or []), packed(comms or []), packed(counters or []))
    return Handover(until_ns, [rows], {}, {})


def entry(timer: int, time_ns: int) -> Row:
    return (timer << 1 | ENTRY, time_ns)


def leave(timer: int, time_ns: int) -> Row:
    return (timer << 1 | EXIT, time_ns)


def test_rows_have_taus_columns() -> None:
    builder = StepBuilder(HEADER)
    builder.add(
        handover(
            10**9,
            thread=2,
            events=[entry(7, 5_000), leave(7, 9_999)],
            comms=[(SEND, 11, 1, 800, 6_000)],
            counters=[(4, 42, 7_000)],
        )
    )
    ((events, comms, counters, *_),) = builder.cut()
    assert events.tolist() == [[0, 3, 2, 0, 7, 1_000_000_005], [0, 3, 2, 1, 7, 1_000_000_009]]
    assert comms.tolist() == [[0, 3, 2, SEND, 11, 1, 800, 1_000_000_006]]
    assert counters.tolist() == [[0, 3, 2, 4, 42, 1_000_000_007]]


def test_threads_are_blocks_and_messages_and_counters_are_merged_by_time() -> None:
    builder = StepBuilder(HEADER)
    for thread, shift in ((2, 0), (0, 1_000), (1, 2_000)):
        times = [shift + 10_000, shift + 20_000]
        builder.add(
            handover(
                10**9,
                thread,
                [entry(1, times[0]), leave(1, times[1])],
                [(RECEIVE, 0, 0, 8, time) for time in times],
                [(1, 5, time) for time in times],
            )
        )
    ((events, comms, counters, *_),) = builder.cut()
    assert events[:, EVENT_THREAD].tolist() == [0, 0, 1, 1, 2, 2]
    assert comms[:, COMM_THREAD].tolist() == [2, 0, 1, 2, 0, 1]
    assert counters[:, COUNTER_THREAD].tolist() == [2, 0, 1, 2, 0, 1]


def test_rows_beyond_what_is_complete_stay_for_the_next_step() -> None:
    """A message is never in another step than the call around it when that has ended in the step."""
    builder = StepBuilder(HEADER)
    builder.add(handover(5_000, events=[entry(1, 1_000), leave(1, 4_000), entry(2, 6_000)], comms=[]))
    builder.add(handover(5_500, comms=[(SEND, 0, 0, 1, 3_000), (SEND, 0, 0, 1, 6_500)]))
    ((events, comms, *_),) = builder.cut()
    assert (len(events), len(comms)) == (2, 1)
    ((events, comms, *_),) = builder.cut_last(end_ns=None)
    assert (len(events), len(comms)) == (1, 1)


def test_calls_open_on_the_main_thread_exit_at_the_end_from_the_inside_out() -> None:
    builder = StepBuilder(HEADER)
    builder.add(handover(2_000, events=[entry(0, 0), entry(1, 1_000)]))
    builder.add(handover(2_000, thread=1, events=[entry(9, 1_500)]))
    builder.cut()
    builder.add(handover(8_000, events=[entry(2, 3_000), leave(2, 4_000), entry(3, 5_000)]))
    ((events, *_),) = builder.cut_last(end_ns=8_000)
    exits = events[events[:, EVENT_TIME] == 1_000_000_008]
    assert exits[:, EVENT_TIMER].tolist() == [3, 1, 0]
    assert exits[:, EVENT_TYPE].tolist() == [EXIT] * 3
    assert set(exits[:, EVENT_THREAD].tolist()) == {0}


def test_killed_program_gets_no_exits() -> None:
    builder = StepBuilder(HEADER)
    builder.add(handover(2_000, events=[entry(0, 0)]))
    ((events, *_),) = builder.cut_last(end_ns=None)
    assert len(events) == 1


def test_names_and_metadata_accumulate_under_the_streams_rank() -> None:
    builder = StepBuilder(HEADER)
    builder.add(Handover(0, [], {1: "main"}, {1: "size"}, {(0, "pid"): "12"}))
    builder.add(Handover(0, [], {2: "relax"}, {}, {(4, "tid"): "13"}))
    assert builder.names.timers == {0: ".TAU application", 1: "main", 2: "relax"}
    assert builder.names.counters == {0: "TIME", 1: "size"}
    assert builder.names.metadata == {(3, 0, "pid"): "12", (3, 4, "tid"): "13"}


def test_size_is_that_of_the_step() -> None:
    builder = StepBuilder(HEADER)
    assert builder.size_bytes == 0
    builder.add(handover(10, events=[entry(0, 0), entry(1, 1)]))
    assert builder.size_bytes == 96
    builder.cut()
    assert builder.size_bytes == 0


def test_rows_beyond_what_a_reader_digests_become_several_steps() -> None:
    builder = StepBuilder(HEADER)
    number = 5 * LARGEST_STEP_BYTES // 2 // 48
    for thread in (0, 1):
        rows = [entry(1, 1_000 * n) if n % 2 == 0 else leave(1, 1_000 * n) for n in range(number // 2)]
        builder.add(handover(1_000 * number, thread, rows))
    steps = builder.cut()
    assert [len(events) * 48 <= LARGEST_STEP_BYTES for events, *_ in steps] == [True] * 3
    assert sum(len(events) for events, *_ in steps) == number // 2 * 2
    ends = [int(events[:, EVENT_TIME].max()) for events, *_ in steps]
    starts = [int(events[:, EVENT_TIME].min()) for events, *_ in steps]
    assert all(end < start for end, start in zip(ends, starts[1:], strict=False))


@st.composite
def calls(draw: st.DrawFn) -> list[Row]:
    """Events of one thread: nested calls, some still open."""
    events: list[Row] = []
    stack: list[int] = []
    for time_ns, chance in enumerate(draw(st.lists(st.integers(0, 9), max_size=60))):
        if stack and chance >= 5:
            events.append(leave(stack.pop(), time_ns))
        else:
            stack.append(chance)
            events.append(entry(chance, time_ns))
    return events


def open_by_stack(events: list[Row]) -> list[int]:
    stack: list[int] = []
    for code, _ in events:
        if code & 1:
            stack.pop()
        else:
            stack.append(code >> 1)
    return stack


@given(calls(), st.integers(0, 60))
def test_open_timers_are_those_of_a_stack(events: list[Row], cut: int) -> None:
    codes = np.array([code for code, _ in events], np.int64)
    assert open_timers(open_by_stack(events[:cut]), codes[cut:]) == open_by_stack(events)


@given(st.lists(calls(), min_size=1, max_size=3), st.lists(st.integers(0, 70), max_size=6).map(sorted))
def test_no_cut_loses_repeats_or_disorders_rows(threads: list[list[Row]], cuts: list[int]) -> None:
    builder = StepBuilder(HEADER)
    steps = []
    taken = [0] * len(threads)
    for cut in [*cuts, 10**6]:
        for thread, events in enumerate(threads):
            # Threads run on while rows are taken: some come before the next cut is complete.
            until = cut + 3 * thread
            builder.add(handover(cut, thread, events[taken[thread] : until]))
            taken[thread] = max(taken[thread], until)
        steps += [events for events, *_ in builder.cut()]
        assert (steps[-1][:, EVENT_TIME] <= HEADER.clock_offset_ns // 1000 + cut).all()
    rows = np.concatenate(steps)
    for thread, events in enumerate(threads):
        own = rows[rows[:, EVENT_THREAD] == thread]
        codes = own[:, EVENT_TIMER] * 2 + own[:, EVENT_TYPE]
        assert codes.tolist() == [code for code, _ in events]


def forked_rows(handovers: list[list[Row]]) -> list[tuple[int, int]]:
    """Type and timer of what is left of a forked child's rows."""
    builder = StepBuilder(Header("app", 0, 0, parent_pid=1, is_forked=True))
    for number, rows in enumerate(handovers):
        builder.add(handover(1000 * (number + 1), events=rows))
    ((events, *_),) = builder.cut_last(None)
    return [(kind, timer) for kind, timer in events[:, 3:5].tolist()]


def test_exits_of_calls_that_a_fork_inherited_are_left_out() -> None:
    first = [entry(0, 1), entry(5, 2), leave(5, 3), leave(6, 4), entry(7, 5)]
    second = [leave(7, 6), leave(8, 7), entry(5, 8), leave(5, 9)]
    left = [(0, 0), (0, 5), (1, 5), (0, 7), (1, 7), (0, 5), (1, 5)]
    assert forked_rows([first, second]) == left
    assert forked_rows([[row] for row in (*first, *second)]) == left


def test_killed_child_exits_and_its_open_calls_do_not() -> None:
    builder = StepBuilder(HEADER)
    builder.add(handover(1_000_000, events=[entry(0, 1), entry(5, 2_000_000)]))
    ((events, *_),) = builder.cut_last_of_killed()
    assert events[:, 3:5].tolist() == [[0, 0], [0, 5], [1, 0]]
    assert events[2, 5] == events[1, 5]


def test_killed_child_of_which_nothing_came_has_no_rows() -> None:
    ((events, *_),) = StepBuilder(HEADER).cut_last_of_killed()
    assert len(events) == 0


def test_a_hook_that_finds_what_was_open_and_nothing_else_adds_no_row() -> None:
    """It was gone for a moment, as often as not at the end of a handover."""
    builder = StepBuilder(HEADER)
    builder.add(handover(100, events=[entry(1, 1), entry(5, 10)]))
    builder.add(handover(200, events=[(FOUND - 1, 150), (5 << 1, 0)]))
    builder.add(handover(300, events=[leave(5, 250)]))
    ((events, *_),) = builder.cut_last(None)
    assert events[:, [EVENT_TYPE, EVENT_TIMER]].tolist() == [[0, 1], [0, 5], [1, 5]]


def test_threads_on_which_no_call_was_found_open_have_no_rows() -> None:
    builder = StepBuilder(HEADER)
    builder.add(handover(10_000, thread=2, events=[(FOUND, 5_000)]))
    builder.add(handover(20_000, thread=2, events=[entry(4, 11_000), leave(4, 12_000)]))
    assert [row[3:5].tolist() for row in builder.cut()[0].events] == [[0, 4], [1, 4]]


def test_pauses_outside_of_calls_are_left_out_and_counters_of_the_program_are_not() -> None:
    names = {1: Pause.STANDING.counter("wait in pool.py:3"), 2: "queue length"}
    values = [(1, 7, 500_000), (2, 8, 600_000), (1, 9, 1_500_000), (1, 5, 2_500_000), (2, 6, 2_600_000)]
    events = [entry(4, 1_000_000), leave(4, 2_000_000)]
    pieces = [handover(1_200_000, 3, events[:1], counters=values[:2]), handover(9_000_000, 3, events[1:])]
    builder = StepBuilder(HEADER)
    steps = []
    for piece in pieces:
        builder.add(piece._replace(counters=names))
        steps += builder.cut()
    builder.add(handover(10_000_000, 3, counters=values[2:]))
    steps += builder.cut()
    # The last piece comes after its call was cut: only what the program says is kept.
    assert [row[4] for step in steps for row in step.counters.tolist()] == [8, 6]
    whole = StepBuilder(HEADER)
    whole.add(handover(9_000_000, 3, events, counters=values)._replace(counters=names))
    assert [row[4] for row in whole.cut()[0].counters.tolist()] == [8, 9, 6]


def test_details_stay_with_their_messages_and_operations_are_rows_of_their_own() -> None:
    builder = StepBuilder(HEADER)
    for thread, time_ns in ((1, 7_000), (0, 5_000)):
        comms = packed([(SEND, 11, 1, 800, time_ns), (SEND, 12, 1, 800, time_ns + 9_000)])
        details = packed([(70 + thread, 1), (-1, 2)])
        operations = packed([(1, 70, -1, 0, 8, 0, time_ns)])
        rows = ThreadRows(thread, b"", comms, b"", details, operations)
        builder.add(Handover(10**9, [rows], {}, {}))
    (step,) = builder.cut()
    assert step.comms[:, 2].tolist() == [0, 1, 0, 1]
    # A communicator is a number of 64 bits.
    assert step.details.tolist() == [[70, 1], [71, 1], [2**64 - 1, 2], [2**64 - 1, 2]]
    assert step.operations[:, 2].tolist() == [0, 1]
    assert step.operations[0].tolist() == [0, 3, 0, 1, 70, 2**64 - 1, 0, 8, 0, 1_000_000_005]


def test_messages_without_details_have_none() -> None:
    builder = StepBuilder(HEADER)
    builder.add(handover(10**9, comms=[(SEND, 11, 1, 800, 6_000)]))
    (step,) = builder.cut()
    assert (len(step.comms), len(step.details), len(step.operations)) == (1, 0, 0)
