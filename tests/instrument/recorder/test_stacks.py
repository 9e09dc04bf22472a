"""Calls on several stacks of one thread: coroutines, stacks that are given up, and those of handlers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.instrument.recorder.streams import WHOLE, Stream, record
from tests.instrument.recorder.test_functions import PROGRAMS, compiled

ROUNDS = 50


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stacks")
    return compiled(PROGRAMS / "stacks.c", folder / "stacks", "-finstrument-functions", request.param)


def durations_us(stream: Stream, name: str) -> list[int]:
    """Runtimes of the calls of a function that have ended, in order of their ends."""
    found = []
    for thread in set(stream.events[:, 2].tolist()):
        begun: list[int] = []
        for row in stream.events[stream.events[:, 2] == thread].tolist():
            if stream.function(row[4]) == name:
                if row[3] == 0:
                    begun.append(row[5])
                else:
                    found.append(row[5] - begun.pop())
    return found


def test_each_coroutine_is_a_lane_of_its_own(program: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [*WHOLE, program, "coroutines"])
    for lane in (1, 2, 3):
        rows = stream.events[stream.events[:, 2] == lane].tolist()
        # What it was in at the end has no EXIT.
        names = [(stream.function(row[4]), row[3]) for row in rows]
        assert names[0] == ("body", 0)
        assert names.count(("part", 0)) == names.count(("part", 1)) == ROUNDS
        assert names.count(("leaf", 0)) == names.count(("leaf", 1)) == 2 * ROUNDS
        assert names.count(("deep", 0)) == names.count(("deep", 1)) == 21 * ROUNDS
        assert stream.names.metadata[0, lane, "tid"] == stream.metadata("tid")
    assert stream.calls(0)["scheduler"] == ROUNDS
    assert stream.metadata("Not Recorded") == ""


def test_threads_have_stacks_of_their_own_each(program: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [*WHOLE, program, "threads"])
    # What the coroutines were in has ended with their thread.
    calls = stream.calls()
    assert calls["scheduler"] == 4 * ROUNDS and calls["body"] == 4 * 3
    assert calls["part"] == 4 * 3 * ROUNDS and calls["leaf"] == 2 * calls["part"]
    assert calls["deep"] == 21 * calls["part"]
    assert set(stream.nesting()) >= {("", "scheduler"), ("", "body"), ("body", "part"), ("part", "leaf")}
    assert ("scheduler", "body") not in stream.nesting()
    assert stream.metadata("Not Recorded") == ""


def test_a_call_ends_when_its_stack_was_given_up_and_not_when_it_is_used_again(
    program: Path, tmp_path: Path
) -> None:
    (stream,) = record(tmp_path, [*WHOLE, program, "generators"])
    found = durations_us(stream, "abandoned")
    assert len(found) == ROUNDS - 1
    # Each waits for 2 ms before its stack is used again.
    assert sorted(found)[len(found) // 2] < 1000


def test_calls_of_a_handler_are_part_of_those_that_it_interrupted(program: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [*WHOLE, program, "handlers"])
    nesting = stream.nesting()
    assert set(stream.events[:, 2].tolist()) == {0}
    assert nesting["interrupted", "on_signal"] == nesting["on_signal", "leaf"] == 2 * ROUNDS
    above = {parent for parent, name in nesting if name == "leaf"}
    assert above <= {"on_signal", "handlers", "main"}


def test_a_call_that_waits_on_a_stack_ends_though_its_function_is_left_out(tmp_path: Path) -> None:
    flags = ("-finstrument-functions", "-O0")
    program = compiled(PROGRAMS / "suspended.c", tmp_path / "suspended", *flags)
    (stream,) = record(tmp_path, [program])
    assert "of step" in stream.metadata("Functions Left Out")
    rows = [(stream.function(row[4]), row[3]) for row in stream.events[stream.events[:, 2] == 1].tolist()]
    assert rows == [("body", 0), ("step", 0), ("step", 1), ("late", 0), ("late", 1), ("body", 1)]
