"""Callers of functions that the recorder leaves out at times: what is judged, and what is not."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.core.calls.record import CallRecord, StreamHealth
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import LEFT_OUT_AT_TIMES, RECORDED_AGAIN, StreamNames, TraceStep

RANK = 1
MAIN, SOLVE, PART, LEAF = range(4)
FUNCTIONS = {MAIN: "main", SOLVE: "solve", PART: "part", LEAF: "leaf"}
HEALTH = StreamHealth(0, RANK, "node1", "reading", 0, 0, 0, 0, 0, 0, {})


@dataclass
class Program:
    """A program that calls ``solve`` without end: 300 µs of its own, and ``part`` 20 times, 200 µs each, of
    which half is in a ``leaf``; what is left out has no events.
    """

    config: AnalysisConfig = field(default_factory=AnalysisConfig)
    time_us: int = 1_000_000
    steps: int = 0
    kept: frozenset[int] = frozenset({SOLVE, PART, LEAF})
    rows: list[list[int]] = field(default_factory=list)
    found: list[CallRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = StreamNames(timers=dict(FUNCTIONS))
        self.analysis = StreamAnalysis(StreamIdentity(0, RANK, "node1"), self.config)
        self.jitter = np.random.default_rng(7)
        self._event(MAIN, 0)

    def _event(self, function: int, kind: int) -> None:
        if function in self.kept or function == MAIN:
            self.rows.append([0, RANK, 0, kind, function, self.time_us])

    def _compute(self, mean_us: float) -> None:
        self.time_us += int(mean_us * self.jitter.lognormal(0.0, 0.05))

    def call_solve(self, delay_us: int = 0, in_part_us: int = 0) -> None:
        self._event(SOLVE, 0)
        self._compute(300)
        for number in range(20):
            self._event(PART, 0)
            self._compute(100)
            self._event(LEAF, 0)
            self._compute(100)
            self._event(LEAF, 1)
            self.time_us += in_part_us if number == 10 else 0
            self._event(PART, 1)
        self.time_us += delay_us
        self._event(SOLVE, 1)
        self.time_us += 10

    def end_step(self) -> None:
        events = np.array(self.rows, np.uint64).reshape(-1, 6)
        step = TraceStep(self.steps, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))
        result = self.analysis.analyse(step, self.names)
        records = unpack(result.records, HEALTH, "robust")
        self.found += [r for r in records if r.label is Label.ANOMALY and r.revision == 1]
        self.steps += 1
        self.rows = []

    def run(self, steps: int, calls: int = 50) -> None:
        for _ in range(steps):
            for _ in range(calls):
                self.call_solve()
            self.end_step()

    def begin_leaving_out(self, *functions: int, kind: str = LEFT_OUT_AT_TIMES) -> None:
        """From the next step on."""
        number = sum(key.startswith(kind) for _, _, key in self.names.metadata)
        self.names.metadata[RANK, 0, f"{kind}{number}"] = " ".join(map(str, functions))

    def end_leaving_out(self, *functions: int) -> None:
        self.begin_leaving_out(*functions, kind=RECORDED_AGAIN)

    def take_flags(self) -> list[tuple[str, int]]:
        """Function and time lost of each call that was flagged, in ms."""
        flags = [(record.function, round(record.severity_us / 1000)) for record in self.found]
        self.found = []
        return flags


ALL = frozenset({SOLVE, PART, LEAF})
WITHOUT_PART = ALL - {PART}


@pytest.mark.compiled
@pytest.mark.parametrize("calls", [1, 3, 50])
def test_no_call_is_flagged_as_a_callee_is_left_out_and_comes_back(calls: int) -> None:
    """The exclusive time of ``solve`` is 0.3 ms, and 2.3 ms without ``part``, whatever takes turns."""
    program = Program()
    program.run(30, calls=50)
    program.begin_leaving_out(PART)
    for turn in range(8):
        program.kept = ALL if turn % 2 else WITHOUT_PART
        program.run(5, calls)
    assert program.take_flags() == []


@pytest.mark.compiled
def test_the_same_change_is_flagged_where_nothing_says_that_it_is_the_recorders() -> None:
    program = Program()
    program.run(30, calls=5)
    program.kept = WITHOUT_PART
    program.run(5, calls=3)
    assert {function for function, _ in program.take_flags()} == {"solve"}


@pytest.mark.compiled
def test_a_callee_that_is_left_out_in_mid_call_changes_nothing() -> None:
    program = Program()
    program.run(30, calls=5)
    program.begin_leaving_out(PART, LEAF)
    program.run(2)
    for number in range(200):
        program.kept = [ALL, WITHOUT_PART, frozenset({SOLVE})][number % 3]
        program.call_solve()
        if number % 7 == 0:
            program.end_step()
    assert program.take_flags() == []


@pytest.mark.compiled
@pytest.mark.parametrize("kept", [ALL, WITHOUT_PART])
def test_delays_are_found_shortly_after_the_change(kept: frozenset[int]) -> None:
    program = Program()
    program.run(30, calls=5)
    program.begin_leaving_out(PART)
    program.kept = WITHOUT_PART
    program.run(2)
    program.kept = kept
    program.call_solve(delay_us=20_000)
    program.run(1)
    assert program.take_flags() == [("solve", 20)]


@pytest.mark.compiled
def test_a_delay_of_a_callee_is_the_callees_where_it_is_recorded() -> None:
    program = Program()
    program.run(30, calls=5)
    program.begin_leaving_out(PART)
    program.run(2)
    program.call_solve(in_part_us=20_000)
    program.call_solve(in_part_us=20_000, delay_us=30_000)
    program.kept = WITHOUT_PART
    program.call_solve(in_part_us=20_000)
    program.end_step()
    assert program.take_flags() == [("part", 20), ("solve", 30), ("part", 20), ("solve", 20)]


@pytest.mark.compiled
def test_callers_over_callees_that_are_left_out_are_judged_with_these() -> None:
    """With ``part`` and ``leaf`` left out, ``leaf`` counts as a part of ``solve``."""
    program = Program()
    program.run(30, calls=5)
    for functions in ((LEAF,), (PART,)):
        program.begin_leaving_out(*functions)
        program.kept -= set(functions)
        program.run(3)
    program.kept = ALL
    program.run(2)
    program.call_solve(in_part_us=20_000)
    program.kept = frozenset({SOLVE})
    program.call_solve(in_part_us=40_000)
    program.end_step()
    assert program.take_flags() == [("part", 20), ("solve", 40)]


@pytest.mark.compiled
def test_callers_are_judged_by_their_own_time_alone_once_it_is_over() -> None:
    """A delay of 1.5 ms shows beside 0.3 ms, and not beside 4.3 ms with what ``part`` takes."""
    program = Program()
    program.begin_leaving_out(PART, LEAF)
    program.kept = frozenset({SOLVE})
    program.run(2)
    program.kept = ALL
    program.run(2)
    assert program.analysis._detection.left_out.is_caller[[MAIN, SOLVE, PART]].tolist() == [0, 1, 1]
    program.end_leaving_out(PART, LEAF)
    program.run(4)
    assert not program.analysis._detection.left_out.is_caller.any()
    program.call_solve(delay_us=1_500)
    program.end_step()
    assert [function for function, _ in program.take_flags()] == ["solve"]
    program.begin_leaving_out(PART)
    program.kept = WITHOUT_PART
    program.run(6)
    program.kept = ALL
    program.run(6)
    assert program.take_flags() == []


@pytest.mark.compiled
def test_calls_that_are_open_as_it_begins_are_not_judged() -> None:
    program = Program()
    program.run(30, calls=5)
    program.rows.append([0, RANK, 0, 0, SOLVE, program.time_us])
    for _ in range(10):
        program._event(PART, 0)
        program.time_us += 200
        program._event(PART, 1)
    program.end_step()
    program.begin_leaving_out(PART)
    program.time_us += 500_000
    program.rows.append([0, RANK, 0, 1, SOLVE, program.time_us])
    program.run(2)
    assert program.take_flags() == []


@pytest.mark.compiled
def test_a_process_that_goes_on_knows_what_was_left_out() -> None:
    program = Program()
    program.run(30, calls=5)
    program.begin_leaving_out(PART)
    program.kept = WITHOUT_PART
    program.run(2)
    program.analysis = pickle.loads(pickle.dumps(program.analysis))
    program.run(1)
    program.kept = ALL
    program.call_solve(delay_us=20_000)
    program.run(1)
    assert program.take_flags() == [("solve", 20)]


def test_statistics_for_others_are_of_the_calls_as_they_are_recorded() -> None:
    plain, changed = Program(), Program()
    changed.begin_leaving_out(PART)
    for program in (plain, changed):
        program.run(3, calls=10)
    ours, theirs = (program.analysis.hand_out(0).learned for program in (plain, changed))
    columns = slice(0, PROFILE.slices["inclusive_us"].stop)
    assert ours.timers.tolist() == theirs.timers.tolist()
    assert np.array_equal(ours.table[:, columns], theirs.table[:, columns])


@pytest.mark.compiled
def test_inclusive_runtimes_are_judged_as_ever() -> None:
    program = Program(AnalysisConfig(metric="inclusive"))
    program.run(30, calls=5)
    program.begin_leaving_out(PART)
    program.kept = WITHOUT_PART
    program.call_solve(delay_us=20_000)
    program.run(1)
    assert [flag for flag in program.take_flags() if flag[0] == "solve"] == [("solve", 20)]


@pytest.mark.compiled
def test_metadata_that_say_nonsense_are_passed_over() -> None:
    program = Program()
    program.names.metadata[RANK, 0, f"{LEFT_OUT_AT_TIMES}0"] = "x -1 999999999999999999999 2"
    program.run(30, calls=5)
    program.kept = WITHOUT_PART
    program.run(2)
    assert program.take_flags() == []
