"""The whole of recorded streams, against a reader that walks through the rows with lists."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given

from chimbuko.ad.analysis.wholetrace import WholeTrace, read_whole, whole_trace
from chimbuko.capture.trace.discovery import StreamName, find_recorded
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.plainpython import examples
from tests.reference.gpu import RANK, Task, gpu_tasks, gpu_trace, names


class Plain(NamedTuple):
    """One call."""

    begin: int
    end: int
    exclusive: int
    function: int
    thread: int
    depth: int
    step: int
    row: int


def naive_calls(stream: StreamName) -> set[Plain]:
    """Each EXIT ends the innermost open call of its thread: so it is in these traces."""
    found: set[Plain] = set()
    stacks: dict[int, list[list[int]]] = defaultdict(list)
    with StreamReader(stream.path, "BPFile") as reader:
        while isinstance(step := reader.next_step(1.0), TraceStep):
            for row, (_, _, thread, kind, timer, time) in enumerate(step.events.tolist()):
                stack = stacks[thread]
                if kind == 0:
                    stack.append([time, timer, step.step, row, 0])
                    continue
                begin, function, of_step, of_row, inside = stack.pop()
                assert function == timer
                if stack:
                    stack[-1][4] += time - begin
                runtime = time - begin
                found.add(Plain(begin, time, runtime - inside, timer, thread, len(stack), of_step, of_row))
    return found


def plain(whole: WholeTrace) -> set[Plain]:
    """The same of what was read."""
    return {Plain(*call[:8]) for call in whole.calls.tolist()}


@pytest.fixture(scope="module")
def streams(real_traces: Path) -> list[StreamName]:
    return find_recorded([str(real_traces / "heat4" / "*.bp")])


def test_all_calls_and_messages_of_a_real_trace_are_there(streams: list[StreamName]) -> None:
    for stream in streams:
        reported: list[int] = []
        whole = read_whole(stream, reported.append)
        calls = naive_calls(stream)
        assert plain(whole) == calls
        assert len(whole.calls) == len(calls)
        assert not whole.calls["is_open"].any() and not whole.calls["is_doubtful"].any()
        assert reported == sorted(reported) and reported[-1] > 2 * len(calls)
        assert (whole.messages["depth"] > 0).all()
        assert whole.gaps_us == []
        assert whole.interval_us == (min(one.begin for one in calls), max(one.end for one in calls))


def test_what_was_sent_was_received(streams: list[StreamName]) -> None:
    messages = {stream.rank: read_whole(stream, lambda rows: None).messages for stream in streams}
    sent = sum(int(of_rank["is_send"].sum()) for of_rank in messages.values())
    assert sent == sum(int((~of_rank["is_send"]).sum()) for of_rank in messages.values()) > 0


@examples(60)
@given(gpu_tasks())
def test_kernels_have_their_launches(tasks: list[Task]) -> None:
    trace = gpu_trace(tasks)
    whole = whole_trace(trace.steps, names(), RANK)
    entries = {
        (step.step, row): (int(event[5]), int(event[2]))
        for step in trace.steps
        for row, event in enumerate(step.events.tolist())
    }
    expected = {
        (entries[stack[0]][0], entries[kernel][0], entries[kernel][1])
        for kernel, stack in trace.launches.items()
    }
    found = {(launch[0], launch[1], launch[4]) for launch in whole.launches.tolist()}
    assert found == expected
    assert whole.gpu_threads == [1, 2, 3]


def made_step(number: int, rows: list[tuple[int, int, int]]) -> TraceStep:
    """ENTRY (0) and EXIT (1) of timers at times."""
    events = np.array([(0, 0, 0, kind, timer, time) for kind, timer, time in rows], np.uint64)
    return TraceStep(number, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))


NAMES = StreamNames(timers={0: "main", 1: "work"})


def test_steps_that_are_missing_are_a_gap_and_what_was_open_is_doubtful() -> None:
    steps = [
        made_step(0, [(0, 0, 100), (0, 1, 110), (1, 1, 120)]),
        made_step(4, [(0, 1, 500), (1, 1, 510), (1, 0, 520)]),
    ]
    whole = whole_trace(steps, NAMES, 0)
    assert whole.gaps_us == [(120, 500)]
    calls = {(call["begin_us"], call["end_us"]): call for call in whole.calls}
    assert calls[100, 520]["is_doubtful"]
    assert not calls[110, 120]["is_doubtful"] and not calls[500, 510]["is_doubtful"]


def test_calls_that_do_not_end_go_on_to_the_last_time() -> None:
    whole = whole_trace([made_step(0, [(0, 0, 100), (0, 1, 110), (1, 1, 190), (0, 1, 200)])], NAMES, 0)
    open_calls = whole.calls[whole.calls["is_open"]]
    assert sorted((call["begin_us"], call["end_us"]) for call in open_calls) == [(100, 200), (200, 200)]


def test_a_call_whose_exit_was_lost_is_there_once() -> None:
    whole = whole_trace([made_step(0, [(0, 0, 100), (0, 1, 110), (1, 0, 200)])], NAMES, 0)
    assert len(whole.calls) == 2
    lost = whole.calls[whole.calls["function"] == 1]
    assert lost["is_open"].all() and lost["is_doubtful"].all()


def test_an_empty_stream_has_nothing() -> None:
    whole = whole_trace([], NAMES, 0)
    assert len(whole.calls) == len(whole.messages) == len(whole.launches) == 0
    assert whole.interval_us == (0, 0)
