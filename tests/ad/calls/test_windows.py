"""Windows made step by step, against windows cut out of the complete trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chimbuko.ad.calls.selection import NO_COUNTERS, NO_LAUNCHES, Selection
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.calls.windows import StepFacts, Windows
from chimbuko.ad.kernels import retained
from chimbuko.ad.kernels.recordtables import MAX_FRAMES
from chimbuko.core.calls.record import CallRecord, StreamHealth
from chimbuko.core.calls.recordarrays import PackedRecords, unpack
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import TraceStep
from tests.plainpython import examples
from tests.reference.stacks import SlowCall
from tests.reference.traces import RANK, START_US, MadeTrace, damaged_traces, made_names, traces
from tests.reference.windows import PROGRAM, SlowWindows, Summary

EXAMPLES = examples(120)
HEALTH = StreamHealth(PROGRAM, RANK, "node1", "reading", 0, 0, 0, 0, 0, 0, {})


def is_chosen(step: int, row: int) -> bool:
    return (step + row) % 3 != 1


def is_abnormal(step: int, row: int) -> bool:
    return (step + row) % 3 == 0


def is_left_out(step: int, row: int) -> bool:
    return (step + row) % 6 == 4


def selection_of(stacks: CallStacks) -> Selection:
    """Of the calls that have ended, those that are chosen."""
    table = stacks.calls
    rows = [
        row
        for row in range(stacks.count)
        if table["exit"][row] and is_chosen(int(table["step"][row]), int(table["row"][row]))
    ]
    abnormal = [is_abnormal(int(table["step"][row]), int(table["row"][row])) for row in rows]
    left_out = [
        row
        for row in range(stacks.count)
        if table["exit"][row] and is_left_out(int(table["step"][row]), int(table["row"][row]))
    ]
    ones = np.ones(len(rows))
    return Selection(
        np.array(rows, np.int32), np.array(abnormal, np.bool_), 7 * ones, 5 * ones, 2 * ones, ones,
        50 * ones, left_out=np.array(left_out, np.int32),
    )  # fmt: skip


class StreamWindows:
    """Windows of one stream, without what belongs to records beside them."""

    def __init__(self, config: AnalysisConfig) -> None:
        self.stacks, self.windows = CallStacks(RANK), Windows(config)
        self._names = made_names()

    def step(self, step: TraceStep) -> list[CallRecord]:
        stacks = self.stacks
        stacks.build(step, self._names)
        no_gpu = np.zeros(len(stacks.threads), np.uint8)
        counters = replace(NO_COUNTERS, owners=stacks.counter_calls)
        facts = StepFacts(step.step, step.interval_us() or (0, 0), 0, counters, no_gpu)
        selection = selection_of(stacks)
        notes = np.zeros((len(step.comms), 2), np.uint32)
        return unpacked(self.windows.step(step, self._names, stacks, facts, notes, selection, NO_LAUNCHES))

    def finish(self) -> list[CallRecord]:
        return unpacked(self.windows.finish())


def held_calls(windows: Windows) -> int:
    """Calls that are held for later steps, and for the records of the last one."""
    return int(windows._tables.pool.sizes[retained.MEMBERS])


def unpacked(records: PackedRecords) -> list[CallRecord]:
    return unpack(records, HEALTH, "sstd")


def run_windows(steps: list[TraceStep], config: AnalysisConfig) -> list[tuple[int, CallRecord]]:
    """All records with the position of the step that gave them."""
    stream = StreamWindows(config)
    records = [(position, record) for position, step in enumerate(steps) for record in stream.step(step)]
    return records + [(len(steps), record) for record in stream.finish()]


def summary(position: int, record: CallRecord) -> Summary:
    return (
        position, record.revision, record.is_final, record.id,
        [(f.id, f.function, f.entry_us, f.exit_us, f.is_anomaly) for f in record.call_stack],
        [
            (c.id, c.function, c.entry_us, c.exit_us, c.is_anomaly, c.parent_id, c.depth)
            for c in record.window
        ],
        record.messages, record.counters, record.left_out,
    )  # fmt: skip


def slow_records(steps: list[TraceStep], config: AnalysisConfig) -> list[Summary]:
    def selected(call: SlowCall) -> bool:
        return is_chosen(call.step, call.row)

    def abnormal(call: SlowCall) -> bool:
        return is_abnormal(call.step, call.row) or is_left_out(call.step, call.row)

    return list(SlowWindows(RANK, steps, made_names(), config, selected, abnormal).records())


def compare(trace: MadeTrace, config: AnalysisConfig) -> list[tuple[int, CallRecord]]:
    steps = trace.steps()
    records = run_windows(steps, config)

    def order(one: Summary) -> tuple[str, int]:
        return one[3], one[1]

    assert sorted((summary(*one) for one in records), key=order) == sorted(
        slow_records(steps, config), key=order
    )
    return records


configs = st.builds(
    AnalysisConfig,
    window_calls=st.sampled_from((0, 1, 2, 5)),
    max_messages=st.sampled_from((0, 2, 100)),
    max_counters=st.sampled_from((1, 100)),
    final_after_steps=st.sampled_from((0, 1, 3, 10)),
)


@EXAMPLES
@given(traces(threads=2), configs)
def test_windows_are_those_of_the_complete_trace(trace: MadeTrace, config: AnalysisConfig) -> None:
    records = compare(trace, config)
    for _, record in records:
        assert record.revision <= 2
    final = [record.id for _, record in records if record.is_final]
    assert sorted(final) == sorted({record.id for _, record in records})


@EXAMPLES
@given(damaged_traces(), configs)
def test_windows_of_damaged_streams_too(trace: MadeTrace, config: AnalysisConfig) -> None:
    compare(trace, config)


def made(events: list[list[int]], number: int, counters: list[list[int]] | None = None) -> MadeTrace:
    return MadeTrace([events], [[]], [counters or []], [number])


def short_calls(first: int, count: int) -> list[list[int]]:
    rows = []
    for call in range(first, first + count):
        rows.append([0, RANK, 0, 0, 1, START_US + 10 * call])
        rows.append([0, RANK, 0, 1, 1, START_US + 10 * call + 5])
    return rows


def test_a_call_open_over_many_steps_keeps_the_neighbours_of_its_beginning() -> None:
    """Two calls before its entry and two after, although thousands followed before it ended."""
    before = [*short_calls(0, 3), [0, RANK, 0, 0, 0, START_US + 40]]
    steps = made(before, 0).steps()
    steps += [made(short_calls(10 * number, 10), number).steps()[0] for number in range(1, 30)]
    # The ENTRY of main stands in row 6, and only its EXIT in the last step makes a record of it.
    steps += made([[0, RANK, 0, 1, 0, START_US + 5000]], 30).steps()
    records = [
        record
        for position, record in run_windows(steps, AnalysisConfig(window_calls=2))
        if position == 30 and record.function == "main"
    ]
    (record,) = records
    assert record.is_final and record.revision == 1
    assert [call.entry_us - START_US for call in record.window] == [10, 20, 40, 100, 110]
    assert [call.parent_id for call in record.window] == ["", "", "", record.id, record.id]
    assert (record.step, record.id) == (30, f"{PROGRAM}:{RANK}:0:6")


@pytest.mark.parametrize(("limit", "final_at"), [(3, 3), (10, 4)])
def test_a_window_that_does_not_fill_is_final_after_the_limit_or_at_the_end(
    limit: int, final_at: int
) -> None:
    steps = made(short_calls(0, 1), 0).steps()
    steps += [made([], number).steps()[0] for number in range(1, 4)]
    config = AnalysisConfig(window_calls=5, final_after_steps=limit)
    records = run_windows(steps, config)
    assert [(position, r.revision, r.is_final) for position, r in records] == [
        (0, 1, False),
        (final_at, 2, True),
    ]


def test_memory_does_not_grow_with_the_stream() -> None:
    """Nothing but recent and open calls, and windows still filling, is held between steps."""
    stream = StreamWindows(AnalysisConfig(window_calls=2))
    held = []
    for number in range(40):
        (step,) = made(short_calls(20 * number, 20), number).steps()
        stream.step(step)
        windows = stream.windows
        held.append((held_calls(windows), windows.held_records))
    assert max(held[20:]) <= max(held[:20])


def test_of_a_stack_that_runs_away_the_innermost_calls_are_kept() -> None:
    depth = MAX_FRAMES + 500
    rows = [[0, RANK, 0, 0, 1, START_US + level] for level in range(depth)]
    rows += [[0, RANK, 0, 1, 1, START_US + 2 * depth]] * 3
    records = [record for _, record in run_windows(made(rows, 0).steps(), AnalysisConfig(window_calls=1))]
    assert {len(record.call_stack) for record in records} == {MAX_FRAMES}
    for record in records:
        assert record.call_stack[0].id == record.id
        assert record.call_stack[-1].entry_us == record.entry_us - MAX_FRAMES + 1
