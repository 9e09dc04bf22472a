"""Call stacks against their slow twin, on well-formed and on damaged streams."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given

from chimbuko.ad.calls.stacks import NAMED_IN_LOST_STEP, CallStacks
from chimbuko.ad.kernels import stack
from chimbuko.core.traceschema import COLLECTIVE_TYPE, MAX_TIME_US, StreamNames, TraceStep
from tests.plainpython import examples
from tests.reference.accounting import Accounting, lost_rows
from tests.reference.stacks import SlowCall, SlowPoint, SlowStacks
from tests.reference.traces import (
    RANK,
    START_US,
    UNNAMED_TIMER,
    MadeTrace,
    Rows,
    damaged_traces,
    made_names,
    traces,
)

EXAMPLES = examples(120)


def step_of(events: list[list[int]], number: int = 0, comms: object = (), counters: object = ()) -> TraceStep:
    return TraceStep(
        number,
        np.array(events, np.uint64).reshape(-1, 6),
        np.array(comms, np.uint64).reshape(-1, 8),
        np.array(counters, np.uint64).reshape(-1, 6),
    )


def assert_equal(stacks: CallStacks, slow: SlowStacks) -> None:
    """All calls of the step, what is attached to them, and all losses are the same."""
    assert (stacks.count, stacks.carried) == (len(slow.calls), slow.carried)
    index = {id(call): row for row, call in enumerate(slow.calls)}

    def row_of(call: SlowCall | None) -> int:
        return -1 if call is None else index[id(call)]

    for row, call in enumerate(slow.calls):
        its = stacks.calls[row]
        assert (
            its.step, its.row, stacks.threads["id"][its.thread], its.function, its.entry, its.exit,
            its.child_us, its.parent, its.depth, its.children, its.messages, its.doubts,
        ) == (
            call.step, call.row, call.thread, call.function, call.entry, call.exit, call.child_us,
            row_of(call.parent), call.depth, call.children, call.messages, call.flags,
        )  # fmt: skip

    def rows_of(points: list[SlowPoint]) -> list[int]:
        return [row_of(point.call) for point in points]

    assert stacks.message_calls.tolist() == rows_of(slow.messages)
    assert stacks.counter_calls.tolist() == rows_of(slow.counters)
    assert stacks.losses.tolist() == [slow.losses[kind] for kind in range(stack.LOSS_KINDS)]
    assert stacks.gap_steps == slow.gap_steps
    assert stacks.open_calls == sum(not call.exit and not call.flags & stack.LOST for call in slow.calls)
    assert stacks.interval_us == slow.interval_us


def compare(trace: MadeTrace) -> CallStacks:
    """Build a stream step by step in both ways; every row is used or counted as lost."""
    names = made_names()
    stacks, slow = CallStacks(RANK), SlowStacks(RANK)
    accounting = Accounting(stacks)
    for position, step in enumerate(trace.steps()):
        if position == 2:
            names.timers[UNNAMED_TIMER] = "MPI_Late()"
        stacks.build(step, names)
        slow.build(step, names)
        assert_equal(stacks, slow)
        assert accounting.unaccounted(step) == 0
    return stacks


@EXAMPLES
@given(traces())
def test_well_formed_streams_are_rebuilt_without_loss(trace: MadeTrace) -> None:
    stacks = compare(trace)
    assert lost_rows(stacks) == 0
    assert stacks.losses[stack.LOST_EXIT] == stacks.losses[stack.TIME_REVERSED] == 0


@pytest.mark.compiled
@examples(250)
@given(damaged_traces())
def test_damaged_streams_are_survived_and_every_row_is_accounted_for(trace: MadeTrace) -> None:
    compare(trace)


@EXAMPLES
@given(traces())
def test_collective_operations_are_attached_as_by_the_slow_twin(trace: MadeTrace) -> None:
    for comms in trace.comms:
        for row in comms[::2]:
            row[3] = COLLECTIVE_TYPE
    compare(trace)


@EXAMPLES
@given(traces())
def test_points_lie_in_the_closed_interval_of_their_call(trace: MadeTrace) -> None:
    names = made_names()
    stacks = CallStacks(RANK)
    for step in trace.steps():
        stacks.build(step, names)
        for rows, attached, column in (
            (step.comms, stacks.message_calls, 7),
            (step.counters, stacks.counter_calls, 5),
        ):
            for row, call in zip(rows.tolist(), attached.tolist(), strict=True):
                if call < 0:
                    continue
                end = int(stacks.calls["exit"][call])
                assert stacks.threads["id"][stacks.calls["thread"][call]] == row[2]
                assert stacks.calls["entry"][call] <= row[column] and (end == 0 or row[column] <= end)


@EXAMPLES
@given(traces())
def test_exclusive_times_sum_up_to_the_outermost_inclusive_time(trace: MadeTrace) -> None:
    """Over any step cuts: nothing of a thread's time is lost or counted twice."""
    names = made_names()
    stacks = CallStacks(RANK)
    exclusive_us, outermost_us = 0, 0
    for step in trace.steps():
        stacks.build(step, names)
        table = stacks.calls
        for row in range(stacks.count):
            if table["exit"][row]:
                inclusive_us = int(table["exit"][row]) - int(table["entry"][row])
                exclusive_us += inclusive_us - int(table["child_us"][row])
                outermost_us += inclusive_us if table["parent"][row] < 0 else 0
    table = stacks.calls
    for top in stacks.threads["top"][: stacks.thread_count]:
        while top >= 0:
            # An open call has so far passed this much on to nobody.
            outermost_us += int(table["child_us"][top])
            top = table["parent"][top]
    assert exclusive_us == outermost_us


CLEAN_TAIL = [
    [0, RANK, 0, 0, 1, 9_000_000],
    [0, RANK, 0, 1, 1, 9_000_001],
    [0, RANK, 0, 0, 1, 9_000_010],
    [0, RANK, 0, 0, 4, 9_000_012],
    [0, RANK, 0, 1, 4, 9_000_015],
    [0, RANK, 0, 1, 1, 9_000_020],
]


@EXAMPLES
@given(damaged_traces())
def test_stacks_recover_from_any_damage(trace: MadeTrace) -> None:
    """Once the outermost call has ended, a clean tail is analysed fully."""
    names = made_names()
    stacks = CallStacks(RANK)
    main = [0, RANK, 0, 0, 0, START_US]
    trace.events[0].insert(0, main)
    for position, step in enumerate(trace.steps()):
        events = step.events.copy()
        # The frame around the damage is itself undamaged.
        inside = events[1:] if position == 0 else events
        inside[inside[:, 4] == 0, 4] = 1
        stacks.build(TraceStep(step.step, events, step.comms, step.counters), names)
    number = trace.numbers[-1] + 1
    stacks.build(step_of([[0, RANK, 0, 1, 0, 8_999_999]], number), names)
    # Damaged times may lie in the future: the first call settles the thread's time.
    stacks.build(step_of(CLEAN_TAIL, number + 1), names)
    table = stacks.calls
    tail = range(stacks.carried + 1, stacks.count)
    assert [int(table["depth"][row]) for row in tail] == [0, 1]
    assert [int(table["exit"][row] - table["entry"][row] - table["child_us"][row]) for row in tail] == [7, 3]
    assert all(int(table["doubts"][row]) in (0, stack.FIRST) for row in tail)


def test_threads_timers_and_calls_grow_as_they_appear() -> None:
    events = [[0, RANK, number, 0, number, START_US + number] for number in range(300)]
    counters = [[0, RANK, 400 + number, 0, 1, START_US] for number in range(40)]
    stacks = CallStacks(RANK)
    stacks.build(step_of(events, counters=counters), StreamNames())
    assert (stacks.count, stacks.thread_count) == (300, 340)
    assert stacks.timers >= 300
    stacks.build(step_of([[0, RANK, n, 1, n, START_US + 1000] for n in range(300)], number=1), StreamNames())
    assert int((stacks.calls["exit"][:300] > 0).sum()) == 300
    assert lost_rows(stacks) == 0
    assert stacks.losses[stack.COUNTER_OUTSIDE_CALLS] == 40


def test_threads_known_from_counters_only_have_room_for_messages() -> None:
    """Counters bring more threads than the tables had when the messages were chained."""
    counters = [[0, RANK, number, 0, 1, START_US + 1] for number in range(9)]
    events = [[0, RANK, number, 0, 1, START_US] for number in range(9)]
    stacks = CallStacks(RANK)
    stacks.build(step_of(events, comms=[[0, RANK, 0, 2, 0, 1, 8, START_US]], counters=counters), made_names())
    assert stacks.message_calls.tolist() == [0]
    assert stacks.counter_calls.tolist() == list(range(9))


@pytest.mark.compiled
def test_outer_call_ends_after_thousands_of_lost_exits() -> None:
    """Each step enters ``solve`` again and again, and never leaves it."""
    lost = 3 * stack.MAX_DEPTH
    rows = [[0, RANK, 0, 0, 0, START_US], *([0, RANK, 0, 0, 1, START_US + i] for i in range(lost))]
    rows.append([0, RANK, 0, 1, 0, START_US + lost])
    steps = [rows[i : i + 1000] for i in range(0, len(rows), 1000)]
    nothing: list[Rows] = [[] for _ in steps]
    stacks = compare(MadeTrace(steps, nothing, nothing, list(range(len(steps)))))
    assert stacks.losses[stack.LOST_EXIT] + stacks.losses[stack.TOO_DEEP] == lost
    assert stacks.lost() == {"calls whose EXIT was lost": lost}
    assert stacks.losses[stack.EXIT_WITHOUT_ENTRY] == 0
    assert stacks.calls["exit"][0] == START_US + lost
    # What is open does not grow with what was lost.
    assert stacks.carried <= stack.MAX_DEPTH + 1


@pytest.mark.compiled
def test_stack_that_is_too_deep_loses_its_inner_half() -> None:
    chance = np.random.default_rng(4)
    rows = []
    for i in range(3 * stack.MAX_DEPTH):
        is_deepening = i < 1.5 * stack.MAX_DEPTH
        kind, thread = (0, 0) if is_deepening else (int(chance.integers(2)), int(chance.integers(2)))
        rows.append([0, RANK, thread, kind, int(chance.choice(4)), START_US + i])
    middle = len(rows) // 2
    stacks = compare(MadeTrace([rows[:middle], rows[middle:]], [[], []], [[], []], [0, 1]))
    assert stacks.losses[stack.TOO_DEEP] > stack.MAX_DEPTH // 2


def test_no_more_threads_than_the_limit() -> None:
    events = [[0, RANK, number, 0, 1, START_US] for number in range(stack.MAX_THREADS + 10)]
    stacks = CallStacks(RANK)
    stacks.build(step_of(events), made_names())
    assert (stacks.count, stacks.thread_count) == (stack.MAX_THREADS, stack.MAX_THREADS)
    assert stacks.lost() == {"rows with an absurd thread": 10}


def test_a_tie_of_one_step_says_nothing_about_the_next() -> None:
    """A message at the instant at which the last step was cut belongs to a call that is still open."""
    names = made_names()
    stacks = CallStacks(RANK)
    send = [0, RANK, 0, 2, 0, 1, 8, START_US + 5]
    first = [
        [0, RANK, 0, 0, 1, START_US],
        [0, RANK, 0, 0, 4, START_US + 1],
        [0, RANK, 0, 1, 4, START_US + 2],
        [0, RANK, 0, 0, 2, START_US + 5],
        [0, RANK, 0, 1, 2, START_US + 5],
    ]
    stacks.build(step_of(first, comms=[send]), names)
    assert stacks.message_calls.tolist() == [2]
    stacks.build(step_of([], 1, comms=[send]), names)
    assert stacks.message_calls.tolist() == [0]


@pytest.mark.parametrize(("kind", "owner"), [(3, 0), (COLLECTIVE_TYPE, 1)])
def test_between_two_calls_a_message_ends_the_first_and_a_collective_operation_begins_the_second(
    kind: int, owner: int
) -> None:
    """All in one microsecond: MPI_Send() is left, and entered again."""
    names = made_names()
    mpi = next(timer for timer, name in names.timers.items() if name.startswith("MPI_"))
    stacks = CallStacks(RANK)
    calls = [(0, START_US), (1, START_US + 5), (0, START_US + 5), (1, START_US + 9)]
    events = [[0, RANK, 0, what, mpi, time_us] for what, time_us in calls]
    stacks.build(step_of(events, comms=[[0, RANK, 0, kind, 0, 1, 8, START_US + 5]]), names)
    assert stacks.message_calls.tolist() == [owner]


@pytest.mark.parametrize("timer", [stack.MAX_UNNAMED_TIMERS, (1 << 20) - 1, 1 << 40])
def test_an_absurd_timer_costs_a_row_and_no_memory(timer: int) -> None:
    stacks = CallStacks(RANK)
    main, bad = [0, RANK, 0, 0, 0, START_US], [0, RANK, 0, 0, timer, START_US + 1]
    stacks.build(step_of([main, bad]), made_names())
    assert stacks.lost() == {"rows with an absurd timer": 1}
    assert stacks.timers < 1000
    assert stacks.calls["doubts"][0] & stack.UNCERTAIN


def test_a_gap_makes_open_calls_unknown_and_no_others() -> None:
    stacks = CallStacks(RANK)
    names = made_names()
    stacks.build(step_of([[0, RANK, 0, 0, 0, START_US]]), names)
    stacks.build(step_of([[0, RANK, 0, 0, 1, START_US + 1], [0, RANK, 0, 1, 1, START_US + 2]], 4), names)
    assert stacks.gap_steps == 3
    assert stacks.calls["doubts"][0] & stack.UNKNOWN
    assert not stacks.calls["doubts"][1] & stack.UNKNOWN


def test_a_stream_joined_late_begins_with_a_gap() -> None:
    stacks = CallStacks(RANK)
    stacks.build(step_of([[0, RANK, 0, 1, 1, START_US]], 7), made_names())
    assert stacks.gap_steps == 7
    assert stacks.lost() == {"EXIT without ENTRY": 1}


def test_of_a_stack_that_is_too_deep_the_outer_half_stays_and_is_uncertain() -> None:
    names = made_names()
    stacks = CallStacks(RANK)
    stacks.build(step_of([[0, RANK, 0, 0, 1, START_US + i] for i in range(stack.MAX_DEPTH + 1)]), names)
    stacks.build(step_of([], 1), names)
    assert stacks.carried == stack.MAX_DEPTH // 2
    assert stacks.losses[stack.TOO_DEEP] == stack.MAX_DEPTH + 1 - stacks.carried
    assert (stacks.calls["doubts"][: stacks.carried] & stack.UNCERTAIN).all()


@pytest.mark.compiled
@pytest.mark.parametrize("ends", [True, False])
def test_a_recursion_that_is_too_deep_is_called_that(ends: bool) -> None:
    """Whether its calls end later, or the program dies in them."""
    depth, stacks = 2 * stack.MAX_DEPTH, CallStacks(RANK)
    rows = [[0, RANK, 0, 0, 1, START_US + i] for i in range(depth)]
    rows += [[0, RANK, 0, 1, 1, START_US + depth + i] for i in range(depth if ends else 0)]
    for number, first in enumerate(range(0, len(rows), 1000)):
        stacks.build(step_of(rows[first : first + 1000], number), made_names())
    (given_up,) = stacks.lost().items()
    assert given_up[0] == "calls nested more than 4,096 deep"
    assert stack.MAX_DEPTH // 2 < given_up[1] < depth


def test_an_absurd_time_says_in_which_order_a_call_began_and_nothing_else() -> None:
    stacks = CallStacks(RANK)
    rows = [
        [0, RANK, 0, 0, 0, START_US],
        [0, RANK, 0, 0, 1, MAX_TIME_US + 1],
        [0, RANK, 0, 1, 1, START_US + 2],
    ]
    stacks.build(step_of(rows), made_names())
    assert stacks.lost() == {"rows whose time is absurd or runs backwards": 1}
    assert stacks.call(1)[:2] == (START_US, START_US + 2)
    assert stacks.calls["doubts"][1] & stack.UNCERTAIN
    assert stacks.interval_us == (START_US, START_US + 2)


def test_a_process_that_goes_on_knows_the_calls_that_are_open() -> None:
    """They are handed on between two steps, as a checkpoint keeps them."""
    names = made_names()
    stacks = CallStacks(RANK)
    assert not stacks.is_main_open
    begun = [[0, RANK, thread, 0, timer, START_US + timer] for thread in (0, 5) for timer in (0, 1, 2)]
    ended = [[0, RANK, thread, 1, 2, START_US + 3] for thread in (0, 5)]
    stacks.build(step_of([*begun[:3], ended[0], *begun[3:], ended[1]]), names)
    successor: CallStacks = pickle.loads(pickle.dumps(stacks))
    assert successor.is_main_open and successor.carried == 4
    rest = [[0, RANK, thread, 1, timer, START_US + 9 - timer] for thread in (0, 5) for timer in (1, 0)]
    for one in (stacks, successor):
        one.build(step_of(rest, 1), names)
    assert [successor.call(row) for row in range(4)] == [stacks.call(row) for row in range(4)]
    assert not successor.is_main_open and successor.lost() == {}
    assert [successor.call(row).exit - successor.call(row).entry for row in range(4)] == [9, 7, 9, 7]


def test_steps_that_were_never_read_are_a_gap_also_at_the_end() -> None:
    stacks = CallStacks(RANK)
    stacks.build(step_of([[0, RANK, 0, 0, 70, START_US]], 2), made_names())
    stacks.end(5)
    assert stacks.gap_steps == 2 + 2
    assert stacks.lost() == {NAMED_IN_LOST_STEP: 1}
    stacks.end(5)
    assert stacks.gap_steps == 2 + 2
