"""The flight recorder: what it keeps, what it gives, and reading while it is written."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.handoff.flightrecorder import FlightRecorder, read_recording, record_steps
from chimbuko.ad.kernels import rawrows as recording
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.calls.rawrows import RecordedStep
from chimbuko.core.traceschema import MAX_TIME_US, Operation, StreamNames, TraceStep
from tests.plainpython import examples
from tests.reference.traces import RANK, MadeTrace, damaged_traces, made_names, traces

NOTHING_OPEN = np.empty((0, 2), np.uint64)
NAMES = StreamNames()
HEADER_BYTES = 4096
Rows = list[tuple[int, ...]]


def array(rows: Rows, columns: int) -> UInt64Array:
    return np.array(rows, np.uint64).reshape(-1, columns)


def made_step(number: int, start_us: int, events: int, messages: int = 0, counters: int = 0) -> TraceStep:
    """A step all of whose numbers tell which step and row they belong to."""
    return TraceStep(
        number,
        array([(0, RANK, row % 3, row % 2, number % 1000, start_us + row) for row in range(events)], 6),
        array([(0, RANK, 1, 2, number, 5, row, start_us + row) for row in range(messages)], 8),
        array([(0, RANK, 2, 7, number + row, start_us + row) for row in range(counters)], 6),
    )


def is_kept(row: tuple[int, ...], small: tuple[int, ...], timer: int | None = None) -> bool:
    """Whether the recorder takes a row: of its rank, with numbers that can be meant."""
    *values, time_us = row
    fits = values[0] == 0 and values[1] == RANK and all(values[column] < 1 << 16 for column in small)
    return fits and time_us < MAX_TIME_US and (timer is None or values[timer] < 1 << 32)


def kept_rows(step: TraceStep) -> tuple[Rows, Rows, Rows]:
    """What of a step must be recorded, in the obvious way."""
    events, comms, counters = (
        [tuple(map(int, row)) for row in rows] for rows in (step.events, step.comms, step.counters)
    )
    return (
        [row for row in events if is_kept(row, (2, 3), timer=4)],
        [row for row in comms if is_kept(row, (2, 3))],
        [row for row in counters if is_kept(row, (2,), timer=3)],
    )


def between(parts: tuple[Rows, Rows, Rows], start_us: int, end_us: int) -> tuple[Rows, ...]:
    return tuple([row for row in rows if start_us <= row[-1] <= end_us] for rows in parts)


def rows_of(step: RecordedStep) -> tuple[Rows, ...]:
    restored = step.trace_step(RANK, with_open=False)
    return tuple(
        [tuple(map(int, row)) for row in rows]
        for rows in (restored.events, restored.comms, restored.counters)
    )


sizes = st.tuples(*(st.integers(0, 40) for _ in range(3)), st.integers(0, 500))


@examples(150)
@given(st.lists(sizes, max_size=40), st.integers(0, 6000), st.integers(0, 20_000), st.integers(0, 5000))
def test_keeps_the_newest_steps_in_bounds_and_gives_exactly_their_rows(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int, int, int]],
    size_bytes: int,
    start_us: int,
    length_us: int,
) -> None:
    path = tmp_path_factory.mktemp("ring") / "recorder"
    recorder = FlightRecorder(path, size_bytes, RANK)
    appended, time_us = [], 1
    for number, (events, messages, counters, pause_us) in enumerate(steps):
        appended.append(made_step(number, time_us, events, messages, counters))
        recorder.append(appended[-1], NOTHING_OPEN)
        time_us += 40 + pause_us
    assert path.stat().st_size <= HEADER_BYTES + size_bytes
    recording = read_recording(path)
    kept = recording.steps
    with_rows = [step.step for step in appended if step.rows]
    numbers = [step.step for step in kept]
    assert numbers == with_rows[len(with_rows) - len(numbers) :]
    for step in kept:
        newest = between(kept_rows(appended[step.step]), step.start_us, step.end_us)
        assert rows_of(step) == newest, "a step that was too large has lost more than its oldest rows"
    is_complete = numbers == with_rows and all(step.rows == appended[step.step].rows for step in kept)
    assert recording.is_whole == is_complete
    assert recording.since_us in (0, min((step.start_us for step in kept), default=0))

    end_us = start_us + length_us
    given_back = read_recording(path).between(start_us, end_us, NAMES)
    wanted = [
        (step.step, between(rows_of(step), start_us, end_us))
        for step in kept
        if any(between(rows_of(step), start_us, end_us))
    ]
    assert [(s.step, rows_of(s)) for s in given_back if s.rows] == wanted


@examples(60)
@given(damaged_traces())
def test_damaged_rows_are_left_out_and_all_others_restored(
    tmp_path_factory: pytest.TempPathFactory, trace: MadeTrace
) -> None:
    path = tmp_path_factory.mktemp("ring") / "recorder"
    recorder = FlightRecorder(path, 1 << 16, RANK)
    for step in trace.steps():
        recorder.append(step, NOTHING_OPEN)
    kept = [kept_rows(step) for step in trace.steps()]
    assert [rows_of(step) for step in read_recording(path).steps] == [rows for rows in kept if any(rows)]


@pytest.mark.compiled
def test_collective_operations_are_kept_but_for_damaged_ones(tmp_path: Path) -> None:
    recorder = FlightRecorder(tmp_path / "recorder", 1 << 16, RANK)
    kind = Operation.COLLECTIVE
    own = [(0, RANK, thread, kind, 7, 2, 40 + thread, 800, 0, 10 + thread) for thread in range(3)]
    damaged = [
        (1, *own[0][1:]),
        (0, RANK + 1, *own[0][2:]),
        (0, RANK, 1 << 16, *own[0][3:]),
        (0, RANK, 0, kind + 1, *own[0][4:]),
        (*own[0][:-1], MAX_TIME_US),
    ]
    one_event = array([(0, RANK, 0, 0, 4, 10)], 6), array([], 8), array([], 6)
    step = TraceStep(0, *one_event, operations=array([*damaged[:2], *own, *damaged[2:]], 10))
    recorder.append(step, NOTHING_OPEN)
    (kept,) = read_recording(tmp_path / "recorder").steps
    assert kept.trace_step(RANK, with_open=False).operations.tolist() == [list(row) for row in own]


def slow_open_at(before: Rows, events: Rows, until_us: int) -> Rows:
    """Twin of the kernel: stacks as lists; rows are (time, thread, kind, timer)."""
    all_rows = [*before, *events]
    stacks: dict[int, list[int]] = {}
    for at, (time_us, thread, kind, timer) in enumerate(all_rows):
        stack = stacks.setdefault(thread, [])
        if at >= len(before) and time_us >= until_us:
            continue
        if at < len(before) or kind == 0:
            stack.append(at)
        elif kind == 1 and any(all_rows[held][3] == timer for held in stack):
            while all_rows[stack.pop()][3] != timer:
                pass
    return [all_rows[at] for at in sorted(at for stack in stacks.values() for at in stack)]


rows = st.tuples(st.integers(0, 50), st.sampled_from((0, 1, 65535)), st.integers(0, 2), st.integers(0, 3))


@pytest.mark.compiled
@examples(300)
@given(st.lists(rows, max_size=8), st.lists(rows, max_size=30), st.integers(0, 51))
def test_calls_open_at_a_moment_are_those_of_the_slow_twin(
    before: list[tuple[int, ...]], events: list[tuple[int, ...]], until_us: int
) -> None:
    before = [(time_us, thread, 0, timer) for time_us, thread, _, timer in before]

    def packed(rows: list[tuple[int, ...]]) -> UInt64Array:
        return array([(t, timer | thread << 32 | kind << 48) for t, thread, kind, timer in rows], 2)

    still = np.empty((len(before) + len(events), 2), np.uint64)
    count = recording.open_at(
        packed(before), packed(events), np.uint64(until_us), np.uint64(0), np.uint64(1), still
    )
    assert still[:count].tolist() == packed(slow_open_at(before, events, until_us)).tolist()


@examples(40)
@given(traces(), st.data())
def test_what_is_given_is_a_trace_with_every_exit_after_its_entry(
    tmp_path_factory: pytest.TempPathFactory, trace: MadeTrace, data: st.DataObject
) -> None:
    """From any moment on: calls that were open then come first, as TAU itself begins a trace."""
    path = tmp_path_factory.mktemp("ring") / "recorder"
    recorder = FlightRecorder(path, 1 << 16, RANK)
    opened, last_us = NOTHING_OPEN, 1
    for step in trace.steps():
        recorder.append(step, opened)
        if not step.rows:
            continue
        packed = read_recording(path).steps[-1].packed("events")
        still = np.empty((len(opened) + len(packed), 2), np.uint64)
        count = recording.open_at(opened, packed, np.uint64(MAX_TIME_US), np.uint64(0), np.uint64(1), still)
        opened = still[:count].copy()
        last_us = max(last_us, *(int(time) for time in step.events[:, 5]), 1)
    start_us = data.draw(st.integers(1, last_us + 10))
    depth: dict[int, list[int]] = {}
    for number, recorded in enumerate(read_recording(path).between(start_us, MAX_TIME_US, made_names())):
        for _, _, thread, kind, timer, _ in recorded.trace_step(RANK, with_open=number == 0).events.tolist():
            if kind == 0:
                depth.setdefault(thread, []).append(timer)
            else:
                assert depth[thread].pop() == timer


def test_moment_at_which_nothing_happened_reports_what_was_open(tmp_path: Path) -> None:
    recorder = FlightRecorder(tmp_path / "recorder", 1 << 12, RANK)
    recorder.append(
        TraceStep(0, array([(0, RANK, 0, 0, 4, 10), (0, RANK, 0, 0, 5, 20)], 6), array([], 8), array([], 6)),
        NOTHING_OPEN,
    )
    (step,) = read_recording(tmp_path / "recorder").between(1000, 2000, NAMES)
    assert step.rows == 0
    assert step.trace_step(RANK, with_open=True).events[:, 4:].tolist() == [[4, 10], [5, 20]]


def test_no_recorder_or_one_without_room_gives_nothing(tmp_path: Path) -> None:
    assert read_recording(tmp_path / "none").steps == []
    FlightRecorder(tmp_path / "empty", 0, RANK).append(made_step(0, 1, 10), NOTHING_OPEN)
    assert read_recording(tmp_path / "empty").steps == []


WRITER = """
import sys
from pathlib import Path
from chimbuko.ad.handoff.flightrecorder import FlightRecorder
from tests.ad.handoff.test_flightrecorder import NOTHING_OPEN, made_step, RANK
recorder = FlightRecorder(Path(sys.argv[1]), 20_000, RANK)
first = int(sys.argv[2])
steps = [made_step(n, 1 + 100 * n, 20 + 7 * n % 90, n % 5, n % 11) for n in range(first, first + 500)]
print("ready", flush=True)
while True:
    for step in steps:
        recorder.append(step, NOTHING_OPEN)
"""


def writer(path: Path, first: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first)], stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def intact(step: RecordedStep) -> bool:
    n = step.step
    return rows_of(step) == kept_rows(made_step(n, 1 + 100 * n, 20 + 7 * n % 90, n % 5, n % 11))


@pytest.mark.compiled
def test_what_is_read_while_it_is_written_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "recorder"
    with writer(path, 0) as process:
        try:
            seen: set[int] = set()
            looks = 0
            while len(seen) < 300 or looks < 200:
                steps = read_recording(path).steps
                assert all(intact(step) for step in steps)
                assert all((b.step - a.step) % 500 == 1 for a, b in itertools.pairwise(steps))
                seen |= {step.step for step in steps}
                looks += 1
        finally:
            process.kill()


@pytest.mark.compiled
def test_what_a_killed_process_recorded_stays_and_another_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "recorder"
    for first in (0, 1000, 2000):
        before = {step.step for step in read_recording(path).steps}
        with writer(path, first) as process:
            while {step.step for step in read_recording(path).steps} <= before:
                pass
            os.kill(process.pid, signal.SIGKILL)
        left = read_recording(path).steps
        assert left
        assert all(intact(step) for step in left)
        assert max(step.step for step in left) >= first


def test_without_room_on_the_disk_the_stream_goes_without_a_recorder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, limits[1]))
    try:
        recorder = FlightRecorder(tmp_path / "recorder", 1 << 20, RANK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    recorder.append(made_step(0, 1, 10), NOTHING_OPEN)
    assert read_recording(tmp_path / "recorder").steps == []
    assert "no room for the flight recorder" in capfd.readouterr().err


def test_the_steps_of_a_trace_are_what_a_recorder_with_room_for_them_holds(tmp_path: Path) -> None:
    rows = [(0, 0, 1), (0, 1, 2), (1, 1, 3), (0, 2, 4), (1, 2, 6), (0, 1, 7), (1, 1, 8), (1, 0, 9)]
    pieces = (rows[:4], [], rows[4:])
    events = [array([(0, RANK, 0, kind, timer, us) for kind, timer, us in some], 6) for some in pieces]
    steps = [TraceStep(n, one, array([], 8), array([], 6)) for n, one in enumerate(events)]
    open_then = [NOTHING_OPEN, NOTHING_OPEN, np.array([(1, 0), (4, 2)], np.uint64)]
    recorder = FlightRecorder(tmp_path / "recorder", 1 << 16, RANK)
    for step, opened in zip(steps, open_then, strict=True):
        recorder.append(step, opened)
    names = StreamNames(event_types={0: "ENTRY", 1: "EXIT"})
    assert list(record_steps(steps, names, RANK)) == read_recording(tmp_path / "recorder").steps
