"""Stretches that a long call spends in its own code: which are judged, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.causes.evidence.flag import flag_of
from chimbuko.causes.evidence.needed import needed
from chimbuko.core.calls.record import FIRST_STRETCH_ROW, CallRecord, StreamHealth
from chimbuko.core.calls.recordarrays import pack, unpack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.plainpython import examples

NAMES = StreamNames(timers={0: "main", 1: "compute", 2: "exchange"})
HEALTH = StreamHealth(0, 0, "node1", "reading", 0, 0, 0, 0, 0, 0, {})
START_US = 1_000_000
CALL_US = 4_000
USUAL_US = 30
DELAY_US = 60_000

Row = list[int]


def step_of(number: int, rows: list[Row]) -> TraceStep:
    events = np.array(rows, np.uint64).reshape(-1, 6)
    return TraceStep(number, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))


class Loop:
    """Program whose ``main`` calls two functions in turn, and does something itself in between."""

    def __init__(self, config: AnalysisConfig | None = None) -> None:
        self.analysis = StreamAnalysis(StreamIdentity(0, 0, "node1"), config or AnalysisConfig())
        self._config = config or AnalysisConfig()
        self._random = np.random.default_rng(1)
        self._now_us = START_US
        self._rows: list[Row] = [[0, 0, 0, 0, 0, START_US]]
        self._step = 0
        self.flagged: list[CallRecord] = []
        self.anomalies = 0
        self.severity_us = 0.0

    def turn(self, own_us: int = 0) -> None:
        """Call both functions; before the first, ``main`` takes ``own_us`` longer than usual."""
        for function, more_us in ((1, own_us), (2, 0)):
            self._now_us += int(self._random.integers(USUAL_US // 2, 2 * USUAL_US)) + more_us
            self._rows.append([0, 0, 0, 0, function, self._now_us])
            self._now_us += CALL_US
            self._rows.append([0, 0, 0, 1, function, self._now_us])

    def lose_step(self) -> None:
        """Go on after a step that is lost, in which time passed."""
        self._step += 1
        self._now_us += DELAY_US

    def end_step(self) -> None:
        """Analyse what was done since the step before."""
        result = self.analysis.analyse(step_of(self._step, self._rows), NAMES)
        records = unpack(result.records, HEALTH, self._config.detector)
        self.flagged += [one for one in records if one.label is Label.ANOMALY]
        self.anomalies += result.count.anomalies
        self.severity_us += result.count.severity_us
        self._rows = []
        self._step += 1


def test_delay_between_two_calls_of_main_is_found_where_it_was() -> None:
    loop = Loop()
    for step in range(6):
        for turn in range(60):
            loop.turn(DELAY_US if (step, turn) in ((3, 20), (4, 7)) else 0)
        loop.end_step()
    assert len(loop.flagged) == loop.anomalies == 2
    for one in loop.flagged:
        assert one.function == one.call_stack[0].function == "main"
        assert DELAY_US <= one.exclusive_us == one.inclusive_us <= DELAY_US + 2 * USUAL_US
        assert one.exit_us - one.entry_us == one.inclusive_us
        assert [call.function for call in one.window] == ["exchange", "main", "compute"]
        assert one.window[0].exit_us == one.entry_us and one.window[2].entry_us == one.exit_us
        assert DELAY_US - 2 * USUAL_US <= one.severity_us <= DELAY_US + 2 * USUAL_US
        assert one.is_final
    assert len({one.id for one in loop.flagged}) == 2
    assert loop.severity_us == pytest.approx(sum(one.severity_us for one in loop.flagged))


def test_delay_in_the_step_in_which_main_begins_is_found_but_for_the_first_of_a_place() -> None:
    loop = Loop()
    for turn in range(60):
        loop.turn(DELAY_US if turn in (1, 40) else 0)
    loop.end_step()
    (one,) = loop.flagged
    assert DELAY_US <= one.exclusive_us <= DELAY_US + 2 * USUAL_US
    assert flag_of(one).between == ("exchange", "compute")
    (reduced,) = needed(pack([one]), HEALTH)
    assert flag_of(reduced) == flag_of(one)


def test_usual_long_stretches_are_none() -> None:
    loop = Loop()
    for _ in range(6):
        for turn in range(60):
            loop.turn(DELAY_US if turn % 3 == 0 else 0)
        loop.end_step()
    assert not loop.flagged


def test_delay_that_begins_in_one_step_and_ends_in_the_next_is_found() -> None:
    loop = Loop()
    for step in range(4):
        for turn in range(60):
            loop.turn(DELAY_US if (step, turn) == (3, 0) else 0)
        loop.end_step()
    (one,) = loop.flagged
    assert DELAY_US <= one.exclusive_us <= DELAY_US + 2 * USUAL_US
    assert [call.function for call in one.window] == ["main", "compute"]
    assert flag_of(one).between == ("compute",)


@pytest.mark.parametrize("config", [AnalysisConfig(detector="sstd"), AnalysisConfig(ignore=("main",))])
def test_stretches_are_left_to_the_default_detector_and_to_functions_that_are_judged(
    config: AnalysisConfig,
) -> None:
    loop = Loop(config)
    for step in range(4):
        for turn in range(60):
            loop.turn(DELAY_US if (step, turn) == (3, 20) else 0)
        loop.end_step()
    assert "main" not in {one.function for one in loop.flagged}


def test_gap_of_the_stream_is_no_stretch() -> None:
    loop = Loop()
    for step in range(4):
        for _ in range(60):
            loop.turn()
        loop.end_step()
        if step == 2:
            loop.lose_step()
    assert not loop.flagged


def test_what_a_call_lost_that_goes_on_says_nothing_of_the_pace_of_its_rank() -> None:
    loop = Loop()
    for step in range(4):
        for turn in range(60):
            loop.turn(100 * DELAY_US if (step, turn) == (3, 20) else 0)
        loop.end_step()
    assert loop.flagged
    loop.analysis.finish()
    paces = loop.analysis.hand_out(0).telemetry.paces
    assert set(paces["function"].tolist()) == {1, 2}


Event = tuple[bool, int, int]
"""Whether a call is left, or else the function that is entered, and the time that passed before."""
events = st.tuples(st.booleans(), st.integers(1, 2), st.sampled_from([0, 5, 40, 150_000]))


@examples(60)
@given(st.lists(st.lists(events, max_size=60), min_size=2, max_size=4))
def test_no_call_begins_or_ends_in_a_stretch(steps: list[list[Event]]) -> None:
    analysis = StreamAnalysis(StreamIdentity(0, 0, "node1"), AnalysisConfig())
    now_us, opened, times_us = START_US, [0], [START_US]
    rows: list[Row] = [[0, 0, 0, 0, 0, START_US]]
    for number, turns in enumerate(steps):
        for is_exit, entered, passed_us in turns:
            now_us += passed_us
            leaves = is_exit and len(opened) > 1
            function = opened.pop() if leaves else entered
            opened += [] if leaves else [entered]
            times_us.append(now_us)
            rows.append([0, 0, 0, int(leaves), function, now_us])
        for one in unpack(analysis.analyse(step_of(number, rows), NAMES).records, HEALTH, "robust"):
            if int(one.id.split(":")[-1]) <= FIRST_STRETCH_ROW:
                assert one.function in {"main", "compute", "exchange"}
                assert {one.entry_us, one.exit_us} <= set(times_us)
                assert not any(one.entry_us < time_us < one.exit_us for time_us in times_us)
        rows = []
