"""What was recorded becomes a timeline: each call once, where it was, inside the calls around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.calls.record import CallRecord, CounterValue, Message, StackFrame, WindowCall
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.timeline.ranktimeline import (
    NODE,
    Lane,
    MessagePoint,
    Slice,
    edges,
    matched,
    nested,
    rank_timelines,
)
from tests.sample_records import make_record, mentioned

NEVER = 1 << 40
"""Exit of a call that outlives the trace."""


@dataclass
class Call:
    """A call as it really was."""

    id: str
    entry_us: int
    parent: Call | None
    depth: int
    exit_us: int = NEVER

    def around(self) -> list[Call]:
        """Itself first."""
        return [self, *(self.parent.around() if self.parent else [])]


@st.composite
def real_calls(draw: st.DrawFn) -> list[Call]:
    """The calls of a thread by entry; many begin and end in the same µs."""
    calls: list[Call] = []
    inner: Call | None = None
    time_us = 1_000
    for row, (is_entry, wait_us) in enumerate(
        draw(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=40))
    ):
        time_us += wait_us
        if is_entry:
            inner = Call(f"0:1:3:{row}", time_us, inner, inner.depth + 1 if inner else 0)
            calls.append(inner)
        elif inner is not None:
            inner.exit_us = time_us
            inner = inner.parent
    return calls


@st.composite
def real_records(draw: st.DrawFn) -> tuple[list[Call], list[CallRecord]]:
    """Real calls, and what some records contain of them, each at its own time."""
    calls = draw(real_calls())
    if not calls:
        return [], []
    recorded = draw(st.lists(st.integers(0, len(calls) - 1), max_size=6, unique=True))
    margin = draw(st.integers(0, 4))
    records = []
    for number in recorded:
        reported_us = calls[number].exit_us + draw(st.integers(0, 20))
        window = calls[max(number - margin, 0) : number + margin + 1]
        records.append(record_of(calls[number], window, reported_us))
    return calls, records


def record_of(call: Call, window: Sequence[Call], reported_us: int) -> CallRecord:
    def exit_us(other: Call) -> int:
        return other.exit_us if other.exit_us <= min(reported_us, NEVER - 1) else 0

    so_far_us = max(other.entry_us for other in window) - call.entry_us
    return make_record(
        id=call.id,
        function="f",
        entry_us=call.entry_us,
        exit_us=exit_us(call),
        inclusive_us=exit_us(call) - call.entry_us if exit_us(call) else so_far_us,
        exclusive_us=0,
        depth=call.depth,
        call_stack=[StackFrame(c.id, "f", c.entry_us, exit_us(c), False) for c in call.around()],
        window=[
            WindowCall(c.id, "f", c.entry_us, exit_us(c), c.parent.id if c.parent else "", c.depth, c is call)
            for c in window
        ],
    )


def the_lane(records: Sequence[CallRecord]) -> Lane:
    (timeline,) = rank_timelines(records)
    (lane,) = timeline.lanes
    return lane


def parents(slices: Sequence[Slice]) -> dict[str, str]:
    """Id to id of the slice around it; empty for none."""
    around: list[Slice] = []
    found = {}
    for each, is_begin in edges(slices):
        if is_begin:
            found[each.id] = around[-1].id if around else ""
            around.append(each)
        else:
            assert around.pop() is each
    return found


def assert_nested(slices: Sequence[Slice]) -> None:
    times = [each.begin_us if is_begin else each.end_us for each, is_begin in edges(slices)]
    assert times == sorted(times)
    assert len(times) == 2 * len(slices)


@given(real_records())
def test_each_call_stands_once_where_it_was(made: tuple[list[Call], list[CallRecord]]) -> None:
    real, records = made
    if not records:
        assert list(rank_timelines(records)) == []
        return
    calls = {call.id: call for call in real}
    reported = {(call.id, call.exit_us) for record in records for call in mentioned(record)}
    slices = the_lane(records).slices
    assert_nested(slices)
    assert sorted(each.id for each in slices) == sorted({event_id for event_id, _ in reported})
    inside = parents(slices)
    for each in slices:
        call = calls[each.id]
        assert each.begin_us == call.entry_us
        assert each.is_open == ((each.id, call.exit_us) not in reported)
        if not each.is_open:
            assert each.end_us == call.exit_us
        assert each.end_us <= call.exit_us
        around = [other.id for other in call.around()[1:]]
        if inside[each.id] and inside[each.id] not in around:
            # Only a call whose end is not known can be taken for one around another.
            assert calls[inside[each.id]].exit_us <= each.begin_us
            assert next(other for other in slices if other.id == inside[each.id]).is_open
        if around and around[0] in inside:
            assert inside[each.id] == around[0]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 4), st.booleans()), max_size=25)
)
def test_whatever_the_times_are_slices_nest(calls: list[tuple[int, int, int, bool]]) -> None:
    slices = [
        Slice(f"0:0:0:{row}", "f", "", begin, begin + length, depth, False, is_open)
        for row, (begin, length, depth, is_open) in enumerate(calls)
    ]
    assert_nested(nested(slices))


@given(real_records())
def test_order_of_records_does_not_matter(made: tuple[list[Call], list[CallRecord]]) -> None:
    _, records = made
    if records:
        assert the_lane(records) == the_lane(records[::-1])


def test_an_open_call_lasts_as_long_as_what_is_known_to_be_in_it() -> None:
    hanging = make_record(1, exit_us=0, inclusive_us=5_000, entry_us=1_000_000)
    own = next(each for each in the_lane([hanging]).slices if each.id == hanging.id)
    assert (own.is_open, own.begin_us, own.end_us) == (True, 1_000_000, 1_005_000)


def test_a_record_knows_its_call_better_than_windows_do() -> None:
    first = make_record(0, label=Label.NORMAL)
    neighbour = WindowCall(first.id, first.function, first.entry_us, first.exit_us, "0:1:0:0", 1, True)
    second = make_record(2)
    second = msgspec.structs.replace(second, window=[neighbour, *second.window])
    for records in ([first, second], [second, first]):
        categories = {each.id: each.category for each in the_lane(records).slices}
        assert categories[first.id] == "normal"
        assert categories[second.id] == "anomaly"
        assert categories["0:1:3:92"] == "neighbour"


def test_windows_that_touch_are_one() -> None:
    spans = [(10, 20), (20, 30), (40, 50), (42, 45)]
    records = [
        make_record(row, entry_us=begin, exit_us=end, call_stack=[], window=[])
        for row, (begin, end) in enumerate(spans)
    ]
    assert the_lane(records).windows == [(10, 30), (40, 50)]


def test_messages_and_counters_that_several_windows_report_of_stand_once() -> None:
    twice = Message("SEND", 1, 2, 7, 100, 1_000_100, "0:1:3:90")
    once = Message("RECV", 2, 1, 7, 100, 1_000_200, "0:1:3:90")
    value = CounterValue("heap", 5, 1_000_100, "0:1:3:90")
    records = [
        make_record(0, messages=[twice, twice, once], counters=[value], node_state=[]),
        make_record(2, messages=[twice, twice], counters=[value], node_state=[]),
    ]
    (timeline,) = rank_timelines(records)
    assert [point.message for point in timeline.messages] == [twice, twice, once]
    assert [(counter.thread, counter.name, counter.values) for counter in timeline.counters] == [
        (0, "heap", [(1_000_100, 5)])
    ]


def test_the_state_of_the_node_belongs_to_no_thread() -> None:
    (timeline,) = rank_timelines([make_record(0, counters=[])])
    (counter,) = timeline.counters
    assert (counter.thread, counter.name, counter.values) == (NODE, "monitoring: load", [(1_500_000, 3)])


def test_a_launch_stands_on_the_thread_that_launched() -> None:
    launch = [
        StackFrame("0:1:2:4", "cudaLaunchKernel", 800_000, 800_010, False),
        StackFrame("0:1:0:0", "main", 700_000, 0, False),
    ]
    kernel = make_record(8, thread=8, is_gpu=True, launch_id="0:1:2:4", launch_thread=0, launch_stack=launch)
    (timeline,) = rank_timelines([kernel, make_record(9, thread=8, is_gpu=True)])
    host, gpu = timeline.lanes
    assert [(lane.thread, lane.is_gpu) for lane in (host, gpu)] == [(0, False), (8, True)]
    assert [each.function for each in host.slices] == ["main", "cudaLaunchKernel"]
    assert timeline.launches == [("0:1:2:4", kernel.id)]


def test_each_rank_has_its_own() -> None:
    records = [make_record(0), make_record(2), make_record(1, rank=2), make_record(1, program=1)]
    timelines = list(rank_timelines(records))
    assert [(timeline.program, timeline.rank) for timeline in timelines] == [(0, 1), (0, 2), (1, 1)]
    assert [len(timeline.anomalies()) for timeline in timelines] == [2, 1, 1]


def test_calls_around_one_from_a_flight_recorder_that_it_does_not_hold_are_left_out() -> None:
    known = make_record(row=7, function="MPI_Recv()", entry_us=2_000)
    outer = [StackFrame("", name, 1_000, 0, False) for name in ("main", ".TAU application")]
    wait = msgspec.structs.replace(known, call_stack=[known.call_stack[0], *outer], depth=2, window=[])
    (timeline,) = rank_timelines([wait])
    assert [(one.id, one.parent_id, one.depth) for lane in timeline.lanes for one in lane.slices] == [
        (wait.id, "", 2)
    ]


WITHIN_US = 1_000


def send(time_us: int, source: int = 0, destination: int = 1, tag: int = 7, program: int = 0) -> MessagePoint:
    return MessagePoint(program, source, 0, Message("SEND", source, destination, tag, 64, time_us, ""))


def receive(
    time_us: int, source: int = 0, destination: int = 1, tag: int = 7, program: int = 0
) -> MessagePoint:
    return MessagePoint(program, destination, 0, Message("RECV", source, destination, tag, 64, time_us, ""))


def times(points: list[MessagePoint]) -> list[tuple[int, int]]:
    return [(sent.message.time_us, got.message.time_us) for sent, got in matched(points, WITHIN_US)]


def test_each_send_goes_to_the_first_receive_after_it() -> None:
    points = [send(10), receive(15), send(20), receive(26), send(30), receive(30)]
    assert times(points) == [(10, 15), (20, 26), (30, 30)]
    assert times(points[::-1]) == [(10, 15), (20, 26), (30, 30)]


def test_what_lacks_its_other_end_is_left_alone() -> None:
    assert times([send(10), send(20), receive(25)]) == [(20, 25)]
    assert times([receive(5), send(10), receive(25), receive(40)]) == [(10, 25)]
    assert times([send(10), receive(10 + WITHIN_US + 1)]) == []
    assert times([send(10)]) == times([receive(10)]) == []


def test_only_like_goes_to_like() -> None:
    others = [receive(15, tag=8), receive(15, program=1), receive(15, destination=2), receive(15, source=3)]
    assert times([send(10), *others]) == []
    assert times([send(10), *others, receive(18)]) == [(10, 18)]
