"""Open calls, told from one process to another while nobody waits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from chimbuko.ad.calls.reportedcalls import REPORT
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.handoff.opencalls import MOST_OPEN_CALLS, OpenCallsFile
from chimbuko.ad.kernels.stack import OPEN, gather_open
from chimbuko.core.arrays import as_table
from chimbuko.core.calls.record import StepCount
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.plainpython import examples
from tests.reference.traces import RANK, MadeTrace, damaged_traces, made_names


def step_of(events: list[tuple[int, ...]], number: int = 0) -> TraceStep:
    """Rows are (thread, kind, timer, time)."""
    rows = np.array([(0, RANK, *row) for row in events], np.uint64).reshape(-1, 6)
    return TraceStep(number, rows, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))


def count_of(step: int, start_us: int = 0, end_us: int = 0) -> StepCount:
    return StepCount(0, RANK, step, start_us, end_us, 0, 0, 0.0)


def slow_open(stacks: CallStacks) -> list[tuple[int, ...]]:
    """The twin: walks each thread's stack call by call."""
    found: list[tuple[int, ...]] = []
    for number in range(stacks.thread_count):
        chain = []
        row = int(stacks.threads["top"][number])
        while row >= 0:
            chain.append(row)
            row = int(stacks.calls["parent"][row])
        for row in reversed(chain):
            call = stacks.call(row)
            parent = stacks.call(call.parent) if call.parent >= 0 else None
            above = (parent.step, parent.row) if parent else (-1, -1)
            thread = int(stacks.threads["id"][number])
            times = call.entry, call.child_us
            counts = call.depth, call.children, call.messages, call.doubts
            found.append((*times, call.step, call.row, *above, call.function, thread, *counts))
    return found


@examples(80)
@given(damaged_traces())
def test_all_open_calls_are_reported_as_the_slow_twin_finds_them(
    tmp_path_factory: pytest.TempPathFactory, trace: MadeTrace
) -> None:
    path = tmp_path_factory.mktemp("open") / "open-calls"
    child, agent = OpenCallsFile(path), OpenCallsFile(path)
    stacks = CallStacks(RANK)
    for number, step in enumerate(trace.steps()):
        stacks.build(step, made_names())
        child.publish(stacks, count_of(step.step, 5, 17))
        opened = agent.read()
        assert opened is not None
        assert opened.calls.tolist() == slow_open(stacks)
        assert (opened.steps, opened.step, opened.start_us, opened.newest_us) == (
            number + 1,
            step.step,
            5,
            17,
        )
        entries = [(row[0], row[6] | row[7] << 32 | 6 << 48) for row in slow_open(stacks)]
        assert [tuple(row) for row in child.entries(entry_kind=6).tolist()] == entries


def test_where_there_is_no_room_each_thread_keeps_its_innermost_calls() -> None:
    stacks = CallStacks(RANK)
    deep = [(thread, 0, 100 + depth, 1000 + depth) for thread in (0, 1) for depth in range(20)]
    stacks.build(step_of([*deep, (2, 0, 300, 1000)]), StreamNames())
    room = as_table(np.zeros(10, OPEN))
    count = gather_open(stacks.calls, stacks.threads, stacks.thread_count, room)
    kept = [(int(row.thread), int(row.function)) for row in room[:count]]
    assert kept == [(0, 117), (0, 118), (0, 119), (1, 117), (1, 118), (1, 119), (2, 300)]


def test_more_open_calls_than_fit_are_no_danger(tmp_path: Path) -> None:
    stacks = CallStacks(RANK)
    deep = [(0, 0, depth % 50, 1000 + depth) for depth in range(MOST_OPEN_CALLS + 100)]
    stacks.build(step_of(deep), StreamNames())
    reported = OpenCallsFile(tmp_path / "open-calls")
    reported.publish(stacks, count_of(0))
    opened = reported.read()
    assert opened is not None
    assert len(opened.calls) == MOST_OPEN_CALLS
    assert int(opened.calls["entry_us"][-1]) == deep[-1][-1]


def test_new_process_knows_of_no_open_call(tmp_path: Path) -> None:
    first = OpenCallsFile(tmp_path / "open-calls")
    stacks = CallStacks(RANK)
    stacks.build(step_of([(0, 0, 1, 1000)]), StreamNames())
    first.publish(stacks, count_of(3))
    second = OpenCallsFile(tmp_path / "open-calls")
    second.forget()
    opened = second.read()
    assert opened is not None
    assert len(opened.calls) == 0
    assert opened.steps == 1


def report_of(step: int, row: int) -> np.ndarray:
    report = np.zeros(1, REPORT)
    report["step"], report["row"], report["limit_us"] = step, row, 5e6
    return report


def test_reports_reach_the_streams_process_once(tmp_path: Path) -> None:
    agent = OpenCallsFile(tmp_path / "open-calls")
    agent.report(report_of(1, 1))
    child = OpenCallsFile(tmp_path / "open-calls")
    assert len(child.new_reports()) == 0, "of an earlier process's calls nothing is known"
    agent.report(report_of(2, 7))
    agent.report(report_of(3, 8))
    assert [(int(r["step"]), int(r["row"])) for r in child.new_reports()] == [(2, 7), (3, 8)]
    assert len(child.new_reports()) == 0
    for row in range(100):
        agent.report(report_of(4, row))
    assert child.new_reports()["row"].tolist() == list(range(36, 100))


WRITER = """
import os
import sys
import time
from pathlib import Path
from chimbuko.ad.handoff.opencalls import OpenCallsFile
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.core.traceschema import StreamNames
from tests.ad.handoff.test_opencalls import RANK, count_of, step_of
reported = OpenCallsFile(Path(sys.argv[1]))
stacks = []
for size in range(1, 200, 9):
    stacks.append(CallStacks(RANK))
    stacks[-1].build(step_of([(0, 0, size, 1000 + size) for _ in range(size)]), StreamNames())
reported.publish(stacks[0], count_of(1, 1, 1))
print("ready", flush=True)
parent = os.getppid()
while os.getppid() == parent:
    for one in stacks:
        reported.publish(one, count_of(one.count, one.count, one.count))
        time.sleep(0.002)  # Streams write now and then; one that always does cannot be read.
"""


@pytest.mark.compiled
def test_what_is_read_while_it_is_written_is_of_one_step(tmp_path: Path) -> None:
    path = tmp_path / "open-calls"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path.cwd()) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            agent = OpenCallsFile(path)
            seen: set[int] = set()
            looks = 0
            while len(seen) < 15 or looks < 1000:
                opened = agent.read()
                looks += 1
                if opened is not None:
                    size = opened.step
                    assert (opened.start_us, opened.newest_us, len(opened.calls)) == (size, size, size)
                    assert opened.calls["function"].tolist() == [size] * size
                    seen.add(size)
        finally:
            process.kill()
